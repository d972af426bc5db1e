"""Tests of harness/oracles."""
