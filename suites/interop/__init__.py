"""Tests with clients that need more than Python. They need node and npm, so they are only collected
when they are named (``tox -e interop``)."""
