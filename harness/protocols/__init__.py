"""The harness's own, deliberately simple codecs and the vocabulary of conversations. Shares no
parsing code with a broker."""
