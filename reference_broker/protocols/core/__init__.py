"""Artemis's CORE protocol, as far as flow control needs it (docs/explanation/core_protocol.md).

``connection.py`` has framing, pings and sessions; ``session.py`` has the packets of a session;
``consumer.py`` and ``producer_credit.py`` have the two kinds of credit; ``message.py`` has messages
and their conversion for other protocols.
"""
