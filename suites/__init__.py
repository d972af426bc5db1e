"""What we claim about brokers (stomp, flow, delivery) and about ourselves (units, repo)."""
