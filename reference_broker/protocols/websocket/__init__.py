"""WebSocket beneath STOMP (RFC 6455): the HTTP upgrade, the framing, and the connection."""
