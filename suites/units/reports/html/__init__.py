"""Tests of reports/html."""
