"""Pure functions that judge observations, independent of target, world and clock."""
