"""Tests about the repository: imports, the catalogue, tidiness."""
