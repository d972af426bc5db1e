"""Conformance cases: how they are declared, selected, drawn, executed and judged."""
