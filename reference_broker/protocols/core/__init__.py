"""Artemis' CORE protocol, as far as flow control needs it (docs/explanation/core_protocol.md).

``connection.py`` has octets, signs of life and sessions; ``session.py`` what a session is asked
for; ``consumer.py`` and ``grants.py`` the two kinds of credit; ``message.py`` messages, and what
other protocols see of them. The name is not ``core``, which is what all protocols share.
"""
