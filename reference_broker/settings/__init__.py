"""The settings model: a broker's configuration, whatever file it was read from."""
