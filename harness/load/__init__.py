"""Load: runs many connections, producers and consumers against a target, and records them at low
cost."""
