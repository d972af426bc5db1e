"""Tests of harness/load."""
