"""Drives clients against any target, records what crossed the wire, judges it."""
