"""Real browsers as clients: only collected when named, because they need Chromium and npm (``tox -e
browser``)."""
