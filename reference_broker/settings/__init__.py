"""The settings model: what a broker was configured to be, whichever file it was read from."""
