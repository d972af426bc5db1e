"""Tests of what cases of suites/flow compute."""
