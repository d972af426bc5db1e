"""AMQP 0-9-1: bytes in, core calls, bytes out.

``framing`` cuts bytes into frames; ``methods`` reads and writes their contents (pamqp has the
tables); ``connection`` and ``channel`` are the two state machines; ``declaring``, ``publishing``
and ``consuming`` execute methods, by topic. A peer's mistake is a
:class:`brokerproof.reference_broker.protocols.amqp091.errors.Refusal` with a reply code, raised
where it is noticed.

Numbers in docstrings are sections of the specification of AMQP 0-9-1; class.method names its
reference. Where the specification is silent, RabbitMQ's behaviour decides. Its extensions supported
here are publisher confirms, basic.nack, cancel notifications, connection.blocked, bindings between
exchanges, and queue arguments that begin with x-.
"""
