"""Tests of reference_broker/runtime."""
