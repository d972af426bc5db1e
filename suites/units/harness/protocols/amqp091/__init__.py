"""Tests of harness/protocols/amqp091."""
