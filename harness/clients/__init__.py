"""One module per client: raw peers that can misbehave, and real client libraries."""
