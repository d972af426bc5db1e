"""Tests of reports/judging."""
