"""Tests of reports/tables."""
