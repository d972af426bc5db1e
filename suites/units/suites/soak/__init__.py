"""Tests of suites/soak."""
