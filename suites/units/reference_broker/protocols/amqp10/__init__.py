"""Tests of reference_broker/protocols/amqp10."""
