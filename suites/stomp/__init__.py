"""Conformance: STOMP framing, commands and heart-beats."""
