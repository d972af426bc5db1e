"""Differential search: the same conversations on real brokers and on the reference broker."""
