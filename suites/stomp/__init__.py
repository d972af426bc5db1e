"""Conformance: STOMP framing, commands, and heartbeats."""
