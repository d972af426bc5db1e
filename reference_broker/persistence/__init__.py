"""Storage on disk: pages of messages, and the journal of durable data. Only ``disk.py`` accesses
files."""
