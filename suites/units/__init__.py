"""Ordinary tests of the harness, the reference broker and the reports."""
