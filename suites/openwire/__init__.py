"""Conformance to OpenWire, ActiveMQ's own protocol: how it begins, answers, windows of producers
and consumers, silence."""
