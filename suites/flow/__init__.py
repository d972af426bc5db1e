"""Conformance: connection TTL and consumer windows."""
