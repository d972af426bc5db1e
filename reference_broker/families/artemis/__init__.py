"""The Artemis family: accounting, admission, TTL liveness, management."""
