"""Tests of harness/worlds."""
