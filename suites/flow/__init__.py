"""Conformance: TTL and heartbeats, windows and credit, blocking, rejecting, alarms and sizes."""
