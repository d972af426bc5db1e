"""Tests of harness/cases."""
