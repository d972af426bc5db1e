"""Tests of reference_broker/config/artemis."""
