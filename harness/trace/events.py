"""Events: one fact each, in the past tense, declared once.

The recorder's Arrow schema (:mod:`brokerproof.harness.trace.columns`), Spark's ``StructType`` and
the oracles' input derive from these classes. Rules of this file:

* A field name has the same type everywhere; :mod:`brokerproof.harness.trace.columns` checks this on
  import.
* Every field that is not always known has the default ``None`` and is null in the trace.
* ``_ns`` fields are integers in the trace's clock; sizes are bytes.
* An event class never changes its meaning. A new meaning gets a new class.

The envelope (``run, target, case, seq, at_ns, clock, vantage, conn, kind``) is added by the
recorder. ``at_ns``, ``conn`` and ``vantage`` are given with each event; the rest belongs to the
recording."""

from dataclasses import dataclass
from typing import TypeAlias

from brokerproof.harness.model.enums import CloseHow, Vantage

Headers: TypeAlias = tuple[tuple[str, str], ...]

RECORDED_BYTES = 4096
"""Bodies and raw bytes are recorded up to this length; their full size is always recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The fields of every event. ``conn`` is None for events outside any connection."""

    at_ns: int
    conn: int | None = None
    vantage: Vantage = Vantage.PEER


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseStarted(Event):
    """A case began against a target."""

    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleStarted(Event):
    """A property began a new example. In virtual time each example has its own world and clock."""

    example: int
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEnded(Event):
    """A case ended; ``detail`` is its verdict in one word."""

    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOpened(Event):
    """The harness opened a connection, on which it will speak ``protocol``."""

    protocol: str
    acceptor: str
    remote: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionClosed(Event):
    """The harness noticed that the broker closed the connection."""

    how: CloseHow


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionAbandoned(Event):
    """The harness itself ended the connection: closed (EOF) or cut (RESET)."""

    how: CloseHow


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSent(Event):
    """The harness wrote one well-formed frame of ``size`` bytes; ``body`` may be truncated (see
    ``body_size``)."""

    protocol: str
    command: str
    headers: Headers = ()
    body: bytes = b""
    body_size: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameReceived(Event):
    """The last byte of a frame of ``size`` bytes arrived; ``body`` may be truncated (see
    ``body_size``)."""

    protocol: str
    command: str
    headers: Headers = ()
    body: bytes = b""
    body_size: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OctetsSent(Event):
    """The harness deliberately wrote bytes that are not a well-formed frame, or part of one."""

    data: bytes
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OctetsRefused(Event):
    """Bytes arrived that the harness's codec could not decode as a frame."""

    data: bytes
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OctetsSentUnseen(Event):
    """The client wrote bytes that are missing from the recording, no earlier than ``at_ns``.
    ``command`` gives the reason in one word (LOST, CUT, BEGUN, ENDS, TLS, FOREIGN, CLOCK), and
    ``detail`` in a sentence; ``size`` is 0 if unknown."""

    protocol: str
    command: str
    size: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OctetsReceivedUnseen(Event):
    """The broker wrote bytes that are missing from the recording, no earlier than ``at_ns``. The
    fields are those of :class:`OctetsSentUnseen`."""

    protocol: str
    command: str
    size: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartBeatSent(Event):
    """The harness wrote a heartbeat of ``size`` bytes (STOMP: an EOL; AMQP: an empty frame)."""

    protocol: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartBeatReceived(Event):
    """A heartbeat of ``size`` bytes arrived from the broker."""

    protocol: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalExpected(Event):
    """``label`` should happen between two instants of this trace; the report draws this interval on
    its time axis.

    ``hi_ns`` is None if there is no upper bound."""

    label: str
    requirement: str | None = None
    lo_ns: int
    hi_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(Event):
    """A quantity was measured and compared with the calculated interval.

    ``value``, ``lo`` and ``hi`` are in ``unit`` (``ns``, ``octets``, ``messages`` …); ``margin`` is
    how far the interval was widened on each side for the host's jitter before a value counted as a
    violation."""

    label: str
    requirement: str | None = None
    value: int
    lo: int | None = None
    hi: int | None = None
    margin: int = 0
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Event):
    """A requirement was checked: ``seen`` is the name of a
    :class:`~brokerproof.harness.model.verdicts.Seen`."""

    requirement: str
    seen: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JitterMeasured(Event):
    """The canary timer woke up ``late_ns`` late: the host's own lateness at this moment."""

    late_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced(Event):
    """The case deliberately let ``duration_ns`` pass."""

    duration_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFaulted(Event):
    """The harness disturbed the link: ``detail`` says how (half-close, cut, stall …)."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed(Event):
    """The broker itself reported that it took a branch implementing ``requirement`` (vantage
    BROKER)."""

    requirement: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted(Event):
    """A step of the case, in words, for readers of the report."""

    detail: str


ALL: tuple[type[Event], ...] = tuple(sorted(Event.__subclasses__(), key=lambda kind: kind.__name__))
"""Every kind of event, by name."""
