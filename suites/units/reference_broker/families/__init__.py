"""Tests of reference_broker/families."""
