"""Bytecode mutants: a tool that knows nothing of our suites mutates the classes of a real broker,
and the suites and the broker's own tests are run on the same mutants."""
