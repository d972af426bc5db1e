"""Conformance to AMQP 0-9-1, section by section, and to what RabbitMQ documents of its
extensions."""
