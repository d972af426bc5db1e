"""Storage on disk: pages of messages, and the journal of durable data. ``disk.py`` uses files."""
