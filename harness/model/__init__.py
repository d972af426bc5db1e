"""Shared vocabulary: time, enumerations, verdicts, findings, and brokers' inputs and effects."""
