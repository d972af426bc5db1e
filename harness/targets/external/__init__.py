"""Brokers that somebody else started, given by address, as targets."""
