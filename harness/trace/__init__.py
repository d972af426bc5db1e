"""Traces: bytes on the wire and expectations of them, as ordered facts. A leaf: imports nothing of
ours but the model."""
