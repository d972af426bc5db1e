"""Long runs of the real process. Each is a separate script and runs only when it is named."""
