"""Artemis's CORE protocol: codec, raw peer, trace recorder and fact reader."""
