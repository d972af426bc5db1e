"""Tests of reports/view."""
