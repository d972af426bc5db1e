"""The sans-I/O core of the broker: addresses, queues, credit and deadlines, without clock, files or
randomness."""
