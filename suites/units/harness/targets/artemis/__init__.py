"""Tests of harness/targets/artemis."""
