"""Tests of reports/model/tables."""
