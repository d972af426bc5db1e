"""Load: many connections, producers and consumers against a target, recorded at low cost."""
