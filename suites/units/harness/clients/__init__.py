"""Tests of harness/clients."""
