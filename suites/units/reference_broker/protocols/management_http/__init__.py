"""Tests of reference_broker/protocols/management_http."""
