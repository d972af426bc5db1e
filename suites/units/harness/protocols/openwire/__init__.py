"""Tests of harness/protocols/openwire."""
