"""Conformance cases: how they are declared, drawn, executed and collected by pytest."""
