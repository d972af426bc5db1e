"""Reads the brokers' own configuration files into one settings model."""
