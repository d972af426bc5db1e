"""The Artemis family: accounting, admission, TTL liveness, address settings, management."""
