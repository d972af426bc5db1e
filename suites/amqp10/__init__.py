"""AMQP 1.0's requirements on brokers, section by section."""
