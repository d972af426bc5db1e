"""Tests of harness/capture."""
