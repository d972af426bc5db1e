"""Tests of harness/commands."""
