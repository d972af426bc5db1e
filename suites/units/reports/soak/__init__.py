"""Tests of reports/soak."""
