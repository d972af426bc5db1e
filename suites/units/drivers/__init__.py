"""Drivers and doubles that several unit tests share."""
