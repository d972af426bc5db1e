"""Conformance: what becomes of messages between SEND and settlement."""
