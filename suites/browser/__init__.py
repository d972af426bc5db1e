"""Tests with real browsers as clients. They need Chromium and npm, so they are only collected when
they are named (``tox -e browser``)."""
