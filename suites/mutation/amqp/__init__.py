"""Seeded faults of AMQP 1.0 and 0-9-1."""
