"""Tests of reference_broker/config/activemq."""
