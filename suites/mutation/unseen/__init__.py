"""Faults seeded by people who had not read the suites, one module for each class of faults."""
