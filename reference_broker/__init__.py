"""An executable specification: a message broker whose flow control and liveness are written to be
read."""
