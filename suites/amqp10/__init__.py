"""What AMQP 1.0 asks of a broker, section by section."""
