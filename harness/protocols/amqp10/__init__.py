"""AMQP 1.0: codec, raw peer, trace recorder, fact reader and load client."""
