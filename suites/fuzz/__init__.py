"""Fuzzers: what reads foreign bytes is fed damaged ones; findings stay as vectors."""
