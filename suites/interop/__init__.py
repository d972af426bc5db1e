"""Clients that need more than Python: only collected when named, because they need node and npm
(``tox -e interop``)."""
