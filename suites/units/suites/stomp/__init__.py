"""Tests of suites/stomp."""
