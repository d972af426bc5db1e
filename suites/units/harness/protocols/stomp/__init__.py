"""Tests of harness/protocols/stomp."""
