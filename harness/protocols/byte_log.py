"""The exact bytes of one example, kept in memory in case it becomes a counterexample.

The trace cuts long bodies and records the meaning of frames; to reproduce a failure, a maintainer
needs the bytes that were written, and when. Only raw STOMP over TCP is kept, because real clients
have their own sockets, and WebSocket frames are masked.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Duration, Instant
from brokerproof.harness.worlds.tls import Certificate
from brokerproof.harness.worlds.world import Channel, ForwardingChannel, Receiver, World

MOST_BYTES = 4 * 1024 * 1024
"""The log of an example that exchanges more bytes than this is not kept."""


@dataclass(frozen=True, slots=True)
class Step:
    at: Instant
    conn: int


@dataclass(frozen=True, slots=True)
class Opened(Step):
    acceptor: str


@dataclass(frozen=True, slots=True)
class Sent(Step):
    data: bytes


@dataclass(frozen=True, slots=True)
class Received(Step):
    data: bytes


@dataclass(frozen=True, slots=True)
class ClosedByUs(Step):
    how: CloseHow


@dataclass(frozen=True, slots=True)
class ClosedByBroker(Step):
    how: CloseHow


Kind: TypeAlias = Literal[
    "frame", "absence", "silence", "end", "open", "messages", "window", "signs", "duration", "count"
]
"""The kinds of expectation; see :class:`Expectation`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An unmet expectation, in a form that can be checked without the case.

    ``until`` is when the wait would have ended. By kind:

    * "frame": one more frame of ``shape`` should have arrived on ``conn``. ``shape`` is the frame's
      command, headers (escaped as on the wire) and body, None for any frame.
    * "absence": ``extra`` frames of ``shape`` should not have arrived, whatever else did.
    * "silence": nor should ERROR or the end of the connection.
    * "end": the broker should have closed ``conn``; "open": it should not.
    * "messages": other bodies, ``arrivals``, should have arrived.
    * "window": ``account`` should have permitted other messages on ``conn``.
    * "signs": from ``since`` on, the gaps between bytes from the broker should have been within
      ``bounds``, including the time to ``until``.
    * "duration": ``value`` since ``since`` should have been within ``bounds``.
    * "count": only the case knows what it counted.
    """

    kind: Kind
    words: str
    conn: int | None = None
    shape: "Shape | None" = None
    extra: int = 0
    until: Instant | None = None
    since: Instant | None = None
    value: int | None = None
    bounds: tuple[int, int | None] | None = None
    arrivals: "Arrivals | None" = None
    account: "Account | None" = None


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Bodies that should have arrived on some connections, counted together.

    ``judged`` pairs connections with how many of their most recent MESSAGEs were judged. If
    ``judged`` is empty, all MESSAGEs of the connection opened last were judged. Bodies in
    ``ignored`` are left out. ``match`` "among others" allows any other body."""

    want: tuple[bytes, ...]
    match: Literal["in order", "in any order", "among others"]
    judged: tuple[tuple[int, int], ...] = ()
    ignored: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """A consumer window in bytes (0: one message at a time; negative: no limit), the number of
    messages sent, and whether an ACK is cumulative."""

    window: int
    total: int
    cumulative: bool


Shape: TypeAlias = tuple[str, tuple[tuple[str, str], ...], bytes | None]


@dataclass(frozen=True, slots=True)
class Violation:
    """One violated check: the sentence of its finding, and the number of steps before it."""

    requirements: tuple[str, ...]
    detail: str
    expectation: Expectation | None
    steps: int
    at: Instant


@dataclass
class ByteLog:
    """``mark`` is the part of destination names that only this example uses. ``unkept`` says why
    bytes are missing."""

    steps: list[Step] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    versions: dict[int, str] = field(default_factory=dict)
    mark: str = ""
    unkept: str | None = None
    _size: int = 0

    def add(self, step: Step) -> None:
        self._size += len(step.data) if isinstance(step, Sent | Received) else 0
        if self._size > MOST_BYTES:
            self.unkept = f"more than {MOST_BYTES} bytes crossed the wire"
            self.steps.clear()
        if self.unkept is None:
            self.steps.append(step)


class LoggedChannel(ForwardingChannel):
    """Keeps the bytes that pass between a peer and its link, in both directions."""

    def __init__(
        self,
        world: World,
        log: ByteLog,
        conn: int,
        acceptor: str,
        receiver: Receiver,
        certificate: Certificate | None = None,
        *,
        plain: bool = False,
    ) -> None:
        """Raises :class:`brokerproof.harness.worlds.world.Unreachable`."""
        self._world, self._log, self._conn, self._receiver = world, log, conn, receiver
        self._gone = False
        log.add(Opened(world.now(), conn, acceptor))
        self._channel: Channel = world.open(acceptor, self, certificate, plain=plain)

    # from the link to the peer

    def bytes_arrived(self, at: Instant, data: bytes) -> None:
        self._log.add(Received(at, self._conn, bytes(data)))
        self._receiver.bytes_arrived(at, data)

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        self._log.add(ClosedByBroker(at, self._conn, how))
        self._receiver.channel_closed(at, how)

    # from the peer to the link

    def write(self, data: bytes) -> None:
        self._log.add(Sent(self._world.now(), self._conn, bytes(data)))
        self._channel.write(data)

    def half_close(self) -> None:
        self._log.unkept = "a connection was half closed"
        self._channel.half_close()

    def close(self) -> None:
        self._leave(CloseHow.EOF)
        self._channel.close()

    def cut(self) -> None:
        self._leave(CloseHow.RESET)
        self._channel.cut()

    def _leave(self, how: CloseHow) -> None:
        if not self._gone:
            self._gone = True
            self._log.add(ClosedByUs(self._world.now(), self._conn, how))

    def hold_reading(self, held: bool) -> None:
        self._log.unkept = "the client stopped reading for a while"
        self._channel.hold_reading(held)


def remaining(until: Instant | None, at: Instant) -> Duration:
    """Return how much of a wait was left at ``at``."""
    return max(0, until - at) if until is not None else 0
