"""The only part of the broker that uses sockets, clocks and processes."""
