"""The broker without input or output: addresses, queues, credit, deadlines. No clock, no files, no
randomness."""
