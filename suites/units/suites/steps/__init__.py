"""Tests of suites/steps."""
