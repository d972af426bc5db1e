"""Tests about the repository: import lines, the catalogue, tidiness."""
