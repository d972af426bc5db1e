"""Drivers and test doubles that several unit tests share."""
