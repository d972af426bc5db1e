"""Tests of reference_broker/families/rabbitmq."""
