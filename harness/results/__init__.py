"""Turns findings into verdicts and results. No case decides how serious a finding is."""
