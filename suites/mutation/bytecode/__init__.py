"""Bytecode mutants: an independent tool mutates the classes of a real broker. The suites and the
broker's own tests run on the same mutants."""
