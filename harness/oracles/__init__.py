"""Pure functions from what was seen to what it means. They know no target, no world and no
clock."""
