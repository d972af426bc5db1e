"""Traces: traffic and expectations about it as ordered events. Imports nothing of ours but the
model."""
