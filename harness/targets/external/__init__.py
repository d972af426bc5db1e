"""Brokers that somebody else started, as targets given by address."""
