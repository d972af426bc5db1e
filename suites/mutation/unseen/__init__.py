"""Faults seeded by people who had not read the suites. Each class of faults has a module."""
