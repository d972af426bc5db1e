"""Conformance to OpenWire, ActiveMQ's own protocol: negotiation, responses, windows of producers
and consumers, inactivity."""
