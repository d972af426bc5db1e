"""Claims about brokers (stomp, flow, delivery) and about ourselves (units, repo)."""
