"""The harness's commands of ``brokerproof``, one per file."""
