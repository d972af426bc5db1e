"""Tests of reports/assembly."""
