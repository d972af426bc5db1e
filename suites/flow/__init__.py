"""Conformance: TTL, heartbeats, windows, credit, blocking, rejecting, alarms, and sizes."""
