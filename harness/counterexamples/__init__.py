"""Counterexamples: a failing example, saved as a case file and as scripts that run without
brokerproof."""
