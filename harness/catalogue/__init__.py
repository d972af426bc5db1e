"""Requirements, the cases that cite them, broker profiles and known deviations."""
