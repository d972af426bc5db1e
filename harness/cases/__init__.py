"""Conformance cases: declaration, selection, drawing of examples, execution and judgement."""
