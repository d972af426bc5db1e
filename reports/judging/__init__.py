"""Judges recordings of any size: by summaries that can be merged, and a recheck of everything
suspicious."""
