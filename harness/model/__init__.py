"""Shared vocabulary: time, enumerations, verdicts, findings, and the inputs and effects of
brokers."""
