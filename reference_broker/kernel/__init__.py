"""The broker's sans-I/O core: addresses, queues, credit, deadlines; no clock, files or
randomness."""
