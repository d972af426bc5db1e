"""Steps that several conformance suites share."""
