"""WebSocket (RFC 6455): codec and raw peer."""
