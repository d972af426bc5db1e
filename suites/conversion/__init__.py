"""Conformance suite: messages that come by one protocol and go by another."""
