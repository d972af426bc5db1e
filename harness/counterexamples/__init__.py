"""Counterexamples: failing examples, each saved as a case file and as scripts that run without
brokerproof."""
