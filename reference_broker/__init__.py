"""An executable specification: a readable message broker with flow control and liveness."""
