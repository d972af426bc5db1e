"""Long runs of the real process; each is a script of its own and runs only when named."""
