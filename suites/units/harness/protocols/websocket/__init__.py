"""Tests of harness/protocols/websocket."""
