"""Drives clients against any target, records the traffic, and judges it."""
