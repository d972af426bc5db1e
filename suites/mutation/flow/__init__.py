"""Seeded faults of flow control, liveness, paging and routing."""
