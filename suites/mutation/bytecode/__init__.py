"""Bytecode mutants: a tool that knows nothing of our suites mutates the classes of a real broker,
and the suites are run on the mutants."""
