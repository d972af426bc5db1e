"""Reads Artemis' own configuration files."""
