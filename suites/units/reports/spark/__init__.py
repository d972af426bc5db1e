"""Tests of reports/spark."""
