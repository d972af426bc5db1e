"""Real browsers as clients. Not collected with the rest: they need Chromium and npm (``tox -e
browser``)."""
