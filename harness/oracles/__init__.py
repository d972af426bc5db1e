"""Pure functions that judge observations. They depend on no target, world or clock."""
