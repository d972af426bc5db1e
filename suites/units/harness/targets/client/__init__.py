"""Tests of harness/targets/proton."""
