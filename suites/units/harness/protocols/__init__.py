"""Tests of harness/protocols."""
