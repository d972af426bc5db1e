"""STOMP: codec, raw peer, trace recorder, fact reader and load client."""
