"""Bugs that brokers had, on the releases that had them and on those that mended them."""
