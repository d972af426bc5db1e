"""Brokers under test: how they are found, started, described and stopped."""
