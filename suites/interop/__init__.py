"""Clients that need more than Python. Not collected with the rest: they need node and npm (``tox -e
interop``)."""
