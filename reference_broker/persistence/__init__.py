"""Storage that outlives memory: pages of messages, and the journal of what is durable. Only
``disk.py`` touches files."""
