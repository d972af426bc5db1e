"""A small STOMP client of our own, and faults of clients."""
