"""Those commands of ``brokerproof`` that belong to the harness, one per file."""
