"""Tests of harness/protocols/amqp10."""
