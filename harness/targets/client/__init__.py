"""Client libraries as targets."""
