"""The embedded reference broker as a target."""
