"""Tests of reference_broker/protocols/stomp."""
