"""Long runs of the real process; each is a separate script and runs only if named."""
