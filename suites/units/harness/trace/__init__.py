"""Tests of harness/trace."""
