"""OpenWire: codec, raw peer and trace recorder."""
