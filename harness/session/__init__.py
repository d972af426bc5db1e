"""A pytest session: collects cases, runs them concurrently on one target, and reports the
results."""
