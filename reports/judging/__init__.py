"""Judges recordings of any size: merges summaries, and rechecks everything suspicious."""
