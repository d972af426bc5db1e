"""Infers a broker's parameters from its behaviour: probes, intervals, and the resulting profile."""
