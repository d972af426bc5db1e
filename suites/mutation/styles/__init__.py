"""Legal styles of the reference broker: the opposite of faults."""
