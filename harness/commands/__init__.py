"""One file per command of ``brokerproof`` that belongs to the harness."""
