"""An executable specification: a message broker with flow control and liveness written to be
read."""
