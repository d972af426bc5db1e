"""The harness's own, deliberately simple codecs, and the vocabulary of conversations. The codecs
share no parsing code with any broker."""
