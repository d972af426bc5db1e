"""Tests of harness/results."""
