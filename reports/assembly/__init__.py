"""Turns recordings into a report or a judgement, by joining the other packages."""
