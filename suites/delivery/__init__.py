"""Conformance: what happens to messages between SEND and settlement."""
