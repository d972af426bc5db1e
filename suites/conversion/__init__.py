"""Conformance suite: messages that are sent over one protocol and received over another."""
