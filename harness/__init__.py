"""Drives clients against any target, records their traffic, and judges it."""
