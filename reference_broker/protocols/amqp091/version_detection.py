"""Detects a connection's AMQP version by its protocol header, where an acceptor supports both
(4.2.2; AMQP 1.0, 2.2).

==========================  ==========================================================================================
the first eight bytes         what follows
==========================  ==========================================================================================
``AMQP`` 3 1 0 0            AMQP 1.0, from its SASL on; also ``AMQP`` 0 1 0 0
``AMQP`` 0 0 9 1            AMQP 0-9-1; also ``AMQP`` 1 1 0 9, the header of 0-9
anything else               our header, and a close: that of 0-9-1 for a peer that asked for a later 0-x, else that of 1.0
==========================  ==========================================================================================
"""  # noqa: E501

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.protocol_detection import Become, DelegatingConnection
from brokerproof.reference_broker.settings.acceptor import Acceptor

SIZE = 8
PREFIX = b"AMQP"
V0_9_1, V0_9, V1_0_SASL, V1_0 = (
    b"AMQP\0\0\x09\x01",
    b"AMQP\x01\x01\0\x09",
    b"AMQP\x03\x01\0\0",
    b"AMQP\0\x01\0\0",
)

_SILENT_MS = 10_000
"""How long a connection may send nothing if there is no handshake timeout."""


class AmqpVersionDetector(DelegatingConnection):
    """A connection whose protocol header has not arrived. ``amqp10`` is None if AMQP 1.0 is not
    supported."""

    def __init__(
        self,
        conn: int,
        acceptor: Acceptor,
        shared: BrokerContext,
        now: Instant,
        amqp091: Become,
        amqp10: Become | None,
    ) -> None:
        super().__init__(conn, acceptor, shared, now)
        self._amqp091 = amqp091
        self._amqp10 = amqp10
        self._wait_for_words(_SILENT_MS)

    def receive(self, now: Instant, data: bytes) -> None:
        if self._became is not None:
            self._became.receive(now, data)
            return
        first = self._first = self._first + data
        if len(first) < SIZE:
            return
        header, rest = first[:SIZE], first[SIZE:]
        self._has_spoken()
        if header in (V0_9_1, V0_9):
            become = self._amqp091
        elif header in (V1_0_SASL, V1_0) and self._amqp10 is not None:
            become, rest = self._amqp10, first
        else:
            self._refuse(header)
            return
        became = become(self._conn, self._acceptor, self._shared, self._opened)
        self._become(became, now, rest)

    def _refuse(self, header: bytes) -> None:
        self._closed = True
        later = header.startswith(PREFIX + b"\0\0") and header[6] >= 9
        ours = V0_9_1 if later or self._amqp10 is None else V1_0_SASL
        self._shared.outbox.observe(
            self._conn, "AMQP091-VER-02", f"{header!r} is not a protocol header known here"
        )
        self._shared.outbox.send(self._conn, ours)
        self._shared.outbox.close(self._conn)
