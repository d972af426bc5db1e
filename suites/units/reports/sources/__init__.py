"""Tests of reports/sources."""
