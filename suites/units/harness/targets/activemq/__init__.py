"""Tests of harness/targets/activemq."""
