"""Tests of reference_broker/kernel."""
