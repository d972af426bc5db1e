"""Which protocol a connection speaks, and what every connection can do whatever it speaks.

An acceptor that speaks AMQP alone knows. One that speaks STOMP looks at the first octets, since
STOMP may come over WebSocket (ARTEMIS-STOMP-ws-1), which begins with an HTTP request. Where AMQP is
spoken as well, that begins with the four letters of its name (AMQP10-VER-01). Which AMQP that is,
where there are two, its header says in full
(:mod:`brokerproof.reference_broker.protocols.amqp091.version_detection`). CORE begins with the name
of its broker. No STOMP frame begins like any of these. As soon as an octet differs it is STOMP, so
a peer that sends little is not kept waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from brokerproof.harness.model.time import Instant, ms
from brokerproof.reference_broker.kernel.connection_info import Described, Describes
from brokerproof.reference_broker.kernel.context import Shared
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.websocket.upgrade import METHODS
from brokerproof.reference_broker.settings.settings import Acceptor

AMQP091 = "AMQP091"
"""How an acceptor's protocols name AMQP 0-9-1; ``AMQP`` alone is AMQP 1.0."""
OPENWIRE = "OPENWIRE"
"""How an acceptor's protocols name OpenWire, which is spoken in the profile of ActiveMQ, by an
acceptor of its own."""
HTTP = "HTTP"
"""How an acceptor's protocols name the management API."""
_LETTERS = b"AMQP"
_MAGIC = b"ARTEMIS"
_SILENT_MS = 60_000
"""For how long a connection may say nothing at all where no handshake timeout is set."""


class Connection(Protocol):
    """What the broker asks of a connection."""

    @property
    def is_open(self) -> bool:
        """Whether input for this connection still means anything."""

    def receive(self, now: Instant, data: bytes) -> None:
        """Octets have arrived."""

    def pause_delivery(self, paused: bool) -> None:
        """Whether the peer gets no messages because it does not read."""

    def on_peer_gone(self) -> None:
        """The peer is gone; nothing can be sent."""

    def on_store_failed(self, reason: str) -> None:
        """What the peer asked for cannot be stored: it is told, and the connection closed."""


def connect(conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> Connection:
    """A connection that has just come in by ``acceptor``."""
    if HTTP in acceptor.protocols:
        return shared.parts.management_api(conn, acceptor, shared, now)
    if OPENWIRE in acceptor.protocols and shared.flow is not None:
        return shared.parts.openwire(conn, acceptor, shared, now)
    if AMQP091 in acceptor.protocols:
        return shared.parts.which_amqp(conn, acceptor, shared, now)
    if "STOMP" not in acceptor.protocols:
        if "CORE" not in acceptor.protocols:
            return shared.parts.amqp(conn, acceptor, shared, now)
        if "AMQP" not in acceptor.protocols:
            return shared.parts.core(conn, acceptor, shared, now)
    return Undecided(conn, acceptor, shared, now)


Become: TypeAlias = Callable[[int, Acceptor, Shared, Instant], Connection]


def _stomp_of(shared: Shared) -> Become:
    return shared.parts.stomp if shared.flow is None else shared.parts.activemq_stomp


class HandsOn:
    """A connection that hands everything on to the one it became, once that is known.

    Until then whoever says nothing at all for the time of a handshake is closed without a word.
    """

    def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> None:
        self._conn, self._acceptor, self._shared = conn, acceptor, shared
        self._opened = now
        self._first = b""
        self._held = self._closed = False
        self._became: Connection | None = None
        self._silence = shared.deadlines.timer(self._on_silence, conn)

    @property
    def _serving(self) -> Connection | None:
        """Who answers for this connection already."""
        return self._became

    def _wait_for_words(self, silent_ms: int) -> None:
        """Sets the time limit: that of the acceptor, else ``silent_ms``."""
        within = ms(self._acceptor.handshake_timeout_ms or silent_ms)
        self._silence.move(self._opened + within)

    def _has_spoken(self) -> None:
        self._silence.cancel()

    @property
    def is_open(self) -> bool:
        return not self._closed if self._serving is None else self._serving.is_open

    def _on_silence(self, now: Instant) -> None:
        self._closed = True
        self._shared.outbox.close(self._conn)

    def pause_delivery(self, paused: bool) -> None:
        self._held = paused
        if self._became is not None:
            self._became.pause_delivery(paused)

    def on_peer_gone(self) -> None:
        self._has_spoken()
        if self._serving is not None:
            self._serving.on_peer_gone()

    def on_store_failed(self, reason: str) -> None:
        if self._serving is not None:
            self._serving.on_store_failed(reason)

    def describe(self) -> Described | None:
        """What the one that it became says."""
        return self._serving.describe() if isinstance(self._serving, Describes) else None

    def out(self) -> Iterator[tuple[Queue, Entry]]:
        """What the one that it became has of queues."""
        return self._serving.out() if isinstance(self._serving, Describes) else iter(())


class Undecided(HandsOn):
    """A connection whose first octets are still to come; they tell what it becomes.

    Where it can only become STOMP, by whatever way, the STOMP connection is there from the start
    and its time limits rule.
    """

    def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> None:
        super().__init__(conn, acceptor, shared, now)
        self._openings: tuple[bytes, ...] = METHODS if "STOMP" in acceptor.protocols else ()
        self._stomp: Connection | None = None
        others = {"AMQP": _LETTERS, "CORE": _MAGIC}
        if found := [each for name, each in others.items() if name in acceptor.protocols]:
            self._openings = (*found, *self._openings)
            self._wait_for_words(_SILENT_MS)
        else:
            self._stomp = _stomp_of(shared)(conn, acceptor, shared, now)

    @property
    def _serving(self) -> Connection | None:
        return self._became or self._stomp

    def receive(self, now: Instant, data: bytes) -> None:
        if self._became is not None:
            self._became.receive(now, data)
            return
        first = self._first = self._first + data
        if any(len(first) < len(each) and each.startswith(first) for each in self._openings):
            return
        self._first = b""
        became = self._became = self._become(first)
        if self._held:
            became.pause_delivery(True)
        became.receive(now, first)

    def _become(self, first: bytes) -> Connection:
        parts, became = self._shared.parts, self._stomp
        if became is None:
            self._has_spoken()
            become = _stomp_of(self._shared)
            if first.startswith(_MAGIC) and _MAGIC in self._openings:
                become = parts.core
            elif first.startswith(_LETTERS) or "STOMP" not in self._acceptor.protocols:
                become = parts.amqp
            became = become(self._conn, self._acceptor, self._shared, self._opened)
        if first.startswith(METHODS) and "STOMP" in self._acceptor.protocols:
            return parts.web_socket(self._conn, self._acceptor, self._shared, became)
        return became
