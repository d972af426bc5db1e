"""Tests of harness/model."""
