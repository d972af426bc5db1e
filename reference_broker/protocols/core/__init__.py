"""The CORE protocol of Artemis, as far as flow control needs it: docs/core_protocol.md says what
there is and what not.

``connection.py`` has octets, signs of life and sessions; ``session.py`` what a session is asked
for; ``consumer.py`` and ``grants.py`` the two kinds of credit; ``message.py`` messages, and what
other protocols see of them. The name is not ``core``, which is what all protocols share.
"""
