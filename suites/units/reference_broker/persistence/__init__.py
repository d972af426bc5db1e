"""Tests of reference_broker/persistence."""
