"""Tests of harness/catalogue."""
