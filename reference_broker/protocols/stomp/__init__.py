"""STOMP 1.0, 1.1 and 1.2: octets in, calls of the core, octets out."""
