"""Reads ActiveMQ's own configuration files."""
