"""Tests of reports/model."""
