"""Conformance to OpenWire, ActiveMQ's own protocol."""
