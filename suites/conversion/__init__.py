"""Conformance: messages sent over one protocol and received over another."""
