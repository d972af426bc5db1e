"""AMQP 1.0's requirements on a broker, section by section."""
