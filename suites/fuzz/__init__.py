"""Fuzzers feed damaged bytes to every reader of foreign bytes. Findings become vectors."""
