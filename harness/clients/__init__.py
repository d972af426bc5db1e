"""One file per client: raw peers that can misbehave, and real client libraries."""
