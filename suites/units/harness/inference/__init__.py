"""Tests of harness/inference."""
