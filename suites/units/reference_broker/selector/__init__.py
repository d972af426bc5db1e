"""Tests of reference_broker/selector."""
