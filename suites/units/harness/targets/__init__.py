"""Tests of harness/targets."""
