"""What crossed the wire, and what was expected of it, as ordered facts. A leaf: imports nothing of
ours but words."""
