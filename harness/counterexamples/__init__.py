"""Counterexamples: a failing example kept as a case file and as scripts that a maintainer can run
without brokerproof."""
