"""Two worlds with the same interface: virtual time, which jumps, and real time, which waits."""
