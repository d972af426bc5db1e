"""One file per client: raw peers that may misbehave, and the real clients that people use."""
