"""Tests of harness/targets/container."""
