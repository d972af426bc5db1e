"""Conformance cases: their declaration, selection, examples, execution and judgement."""
