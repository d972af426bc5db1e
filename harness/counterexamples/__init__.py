"""Counterexamples: a failing example saved as a case file and as scripts that a maintainer can run
without brokerproof."""
