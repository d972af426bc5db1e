"""Tests of harness/protocols/core."""
