"""Tests of reference_broker/protocols/openwire."""
