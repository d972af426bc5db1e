"""Reads RabbitMQ's own configuration files."""
