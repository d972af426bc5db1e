"""Detects a connection's protocol by its first bytes.

An acceptor with a single protocol needs no detection. Otherwise, each registered protocol has its
own first bytes, except one (STOMP), which is the fallback. The fallback may be wrapped in a
transport with its own first bytes (STOMP over WebSocket, ARTEMIS-STOMP-ws-1). The choice is made at
the first differing byte, so a peer that sends little need not wait."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from brokerproof.harness.model.time import Instant, ms
from brokerproof.reference_broker.kernel.connection import Connection
from brokerproof.reference_broker.kernel.connection_info import Described, Describes
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.settings.acceptor import Acceptor

_SILENT_MS = 60_000
"""How long a new connection may be silent if there is no handshake timeout."""

Become: TypeAlias = Callable[[int, Acceptor, BrokerContext, Instant], Connection]
"""Makes a connection that was opened at a given instant."""
Wrap: TypeAlias = Callable[[int, Acceptor, BrokerContext, Connection], Connection]
"""Makes a connection that carries the payload of another one."""


@dataclass(frozen=True, slots=True)
class Detectable:
    """The protocols of an acceptor: those with known first bytes, the fallback, and the transport
    that may wrap it, also with known first bytes."""

    by_first_bytes: Mapping[bytes, Become]
    otherwise: Become
    wrapped_by: tuple[bytes, ...] = ()
    wrap: Wrap | None = None


class DelegatingConnection:
    """Buffers a connection's first bytes until its protocol is known, then delegates every call to
    that protocol's connection.

    A peer that sends nothing for the duration of a handshake is disconnected silently."""

    def __init__(self, conn: int, acceptor: Acceptor, shared: BrokerContext, now: Instant) -> None:
        self._conn = conn
        self._acceptor = acceptor
        self._shared = shared
        self._opened = now
        self._first = b""
        self._held = self._closed = False
        self._became: Connection | None = None
        self._silence = shared.deadlines.timer(self._on_silence, conn)

    @property
    def _serving(self) -> Connection | None:
        """The connection of the detected protocol."""
        return self._became

    def _become(self, became: Connection, now: Instant, data: bytes) -> None:
        self._became = became
        if self._held:
            became.pause_delivery(True)
        if data:
            became.receive(now, data)

    def _wait_for_words(self, silent_ms: int) -> None:
        """Set the time limit: the acceptor's, else ``silent_ms``."""
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
        return self._serving.describe() if isinstance(self._serving, Describes) else None

    def out(self) -> Iterator[tuple[Queue, Entry]]:
        return self._serving.out() if isinstance(self._serving, Describes) else iter(())


class ProtocolDetector(DelegatingConnection):
    """A connection whose first bytes are still to arrive.

    If only one protocol is possible, wrapped or not, its connection exists from the start and its
    time limits apply."""

    def __init__(
        self,
        conn: int,
        acceptor: Acceptor,
        shared: BrokerContext,
        now: Instant,
        protocols: Detectable,
    ) -> None:
        super().__init__(conn, acceptor, shared, now)
        self._protocols = protocols
        self._openings = (*protocols.by_first_bytes, *protocols.wrapped_by)
        self._early: Connection | None = None
        if protocols.by_first_bytes:
            self._wait_for_words(_SILENT_MS)
        else:
            self._early = protocols.otherwise(conn, acceptor, shared, now)

    @property
    def _serving(self) -> Connection | None:
        return self._became or self._early

    def receive(self, now: Instant, data: bytes) -> None:
        if self._became is not None:
            self._became.receive(now, data)
            return
        first = self._first = self._first + data
        if any(
            len(first) < len(opening) and opening.startswith(first) for opening in self._openings
        ):
            return
        self._first = b""
        self._become(self._detect(first), now, first)

    def _detect(self, first: bytes) -> Connection:
        protocols, became = self._protocols, self._early
        if became is None:
            self._has_spoken()
            create = next(
                (
                    create
                    for opening, create in protocols.by_first_bytes.items()
                    if first.startswith(opening)
                ),
                protocols.otherwise,
            )
            became = create(self._conn, self._acceptor, self._shared, self._opened)
        if protocols.wrap is not None and first.startswith(protocols.wrapped_by):
            return protocols.wrap(self._conn, self._acceptor, self._shared, became)
        return became
