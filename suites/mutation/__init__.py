"""Seeded faults of the reference broker, and whether the suites detect them."""
