"""Traces: traffic, and expectations about it, as ordered events. This package imports only our
model."""
