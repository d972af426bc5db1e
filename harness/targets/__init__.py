"""Brokers under test: finding, starting, describing and stopping them."""
