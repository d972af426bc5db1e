"""Judges of recordings of any size: summaries that merge, and a recheck of everything
suspicious."""
