"""Conformance to AMQP 0-9-1, section by section, and to RabbitMQ's documented extensions."""
