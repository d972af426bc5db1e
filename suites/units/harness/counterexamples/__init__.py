"""Tests of harness/counterexamples."""
