"""Tests of reference_broker/protocols/websocket."""
