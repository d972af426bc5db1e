"""A session of pytest: cases are collected, run side by side on one target, and reported."""
