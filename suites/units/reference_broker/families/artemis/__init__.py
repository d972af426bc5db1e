"""Tests of reference_broker/families/artemis."""
