"""Tests of reference_broker."""
