"""The settings model: a broker's configuration, whichever file it was read from."""
