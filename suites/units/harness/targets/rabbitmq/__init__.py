"""Tests of harness/targets/rabbitmq."""
