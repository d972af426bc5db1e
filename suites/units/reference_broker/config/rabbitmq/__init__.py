"""Tests of reference_broker/config/rabbitmq."""
