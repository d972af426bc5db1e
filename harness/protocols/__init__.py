"""The harness's own codecs, dumb on purpose, and the vocabulary of conversations. Shares no parsing
code with a broker."""
