"""AMQP 0-9-1: codec, raw peer, trace recorder, fact reader and load client."""
