"""Judges of recordings at any size: summaries that merge, and a second look at what a summary finds
suspicious."""
