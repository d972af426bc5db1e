"""The harness's own, deliberately simple codecs, and the vocabulary of conversations. They share no
parsing code with a broker."""
