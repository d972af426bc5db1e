"""Conformance as real client libraries see it: stomp.py, Proton, pika."""
