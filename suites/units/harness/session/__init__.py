"""Tests of harness/session."""
