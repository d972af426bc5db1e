"""Brokers in containers as targets."""
