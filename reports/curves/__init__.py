"""Curves of credit, windows and rates over time, and how they are sampled."""
