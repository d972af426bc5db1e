"""Claims about brokers (stomp, flow, delivery) and about this project (units, repo)."""
