"""Seeded faults of STOMP."""
