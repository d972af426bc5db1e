"""Tests of reference_broker/protocols/core."""
