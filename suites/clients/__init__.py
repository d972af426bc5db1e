"""Conformance as seen by real client libraries: stomp.py, Proton, pika."""
