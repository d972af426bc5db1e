"""The contract between a broker and the world that drives it: inputs and effects, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from brokerproof.harness.model.enums import CloseHow

# --- what a world tells a broker ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connected:
    """A peer opened connection ``conn`` (chosen by the driver, never reused) on the acceptor named
    ``acceptor``.

    ``certificate`` is the subject of the certificate by which the transport knows the peer, such as
    ``CN=ann, O=Example``. ``remote`` and ``local`` are the two ends, HOST:PORT; without ``local``
    it is where the acceptor is configured to be.
    """

    conn: int
    acceptor: str
    remote: str
    certificate: str | None = None
    local: str = ""


@dataclass(frozen=True, slots=True)
class BytesReceived:
    """``data`` (never empty) arrived on ``conn``."""

    conn: int
    data: bytes


@dataclass(frozen=True, slots=True)
class PeerGone:
    """``conn`` can carry nothing more: the peer closed or the link broke."""

    conn: int
    how: CloseHow


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The instant named by ``next_deadline()`` has come (or passed)."""


@dataclass(frozen=True, slots=True)
class WritePaused:
    """The peer of ``conn`` is slow: much of what was sent waits on our side. Best send it no more
    messages now."""

    conn: int


@dataclass(frozen=True, slots=True)
class WriteResumed:
    """The output that waited for the peer of ``conn`` is nearly gone: go on."""

    conn: int


@dataclass(frozen=True, slots=True)
class FilesStored:
    """The request of :class:`StoreFiles` under ``ticket`` is done; or it failed, and ``problem``
    says why in one sentence.

    ``full`` says that the problem is want of space. After a problem nothing is known of the files
    that were written to.
    """

    ticket: int
    problem: str | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class FileLoaded:
    """The bytes of the file that :class:`LoadFile` asked for; or ``problem`` says why there are
    none."""

    ticket: int
    data: bytes
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ResourcesRead:
    """Memory that the broker uses, that the machine has and that can be addressed, and free disk
    space. Bytes; None where unknown."""

    memory_used: int
    memory_total: int | None = None
    address_space: int | None = None
    disk_free: int | None = None


@dataclass(frozen=True, slots=True)
class LimitsSet:
    """Somebody sets the limits at which memory and disk space are short: a fraction of the memory
    (float) or bytes (int); None leaves one as it is. ``paging`` is the part of the way to the
    limit of memory after which queues write out what they hold, on brokers that do."""

    memory: float | int | None = None
    disk: float | int | None = None
    paging: float | None = None


@dataclass(frozen=True, slots=True)
class AlarmElsewhere:
    """A broker that this one is linked with has become short of ``resource`` (memory or disk), or
    is not any more."""

    node: str
    resource: str
    short: bool


@dataclass(frozen=True, slots=True)
class AtNode:
    """``event`` is for the broker called ``node``, one of several that are driven together."""

    node: str
    event: ResourcesRead | LimitsSet


Input: TypeAlias = (
    Connected
    | BytesReceived
    | PeerGone
    | TimerFired
    | WritePaused
    | WriteResumed
    | FilesStored
    | FileLoaded
    | ResourcesRead
    | LimitsSet
    | AlarmElsewhere
    | AtNode
)


# --- what a broker asks of its world --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendBytes:
    """Write ``data`` to ``conn``, after everything written before."""

    conn: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close ``conn`` after what was written to it has been flushed. No further input for it will be
    handled."""

    conn: int


@dataclass(frozen=True, slots=True)
class StopReading:
    """Stop taking bytes from ``conn``: TCP back-pressure reaches the peer."""

    conn: int


@dataclass(frozen=True, slots=True)
class ResumeReading:
    """Take bytes from ``conn`` again."""

    conn: int


@dataclass(frozen=True, slots=True)
class Observe:
    """The broker took a branch that exists because of ``requirement``; ``detail`` says what
    happened."""

    conn: int
    requirement: str
    detail: str


@dataclass(frozen=True, slots=True)
class Write:
    """``data`` goes into ``file`` from ``offset`` on. With ``sync`` it survives a loss of power
    before the next is begun.

    ``file`` is a path below the driver's folder, with ``/`` between its parts; it and its folders
    are made if missing.
    """

    file: str
    offset: int
    data: bytes
    sync: bool


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """Carry out ``writes`` one after the other up to the first that fails, then remove the files of
    ``removes``.

    Before that, copies of the files ``aside`` are kept in another folder, and then ``before`` is
    removed. Answered by :class:`FilesStored`; there is never a second one under way.
    """

    ticket: int
    writes: tuple[Write, ...]
    removes: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadFile:
    """Read ``length`` bytes of ``file`` from ``offset`` on, or as many as there are. Answered by
    :class:`FileLoaded`; several may be under way."""

    ticket: int
    file: str
    length: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """Something that the person who runs the broker has to know, in one sentence."""

    sentence: str


@dataclass(frozen=True, slots=True)
class AlarmChanged:
    """This broker has become short of ``resource``, or is not any more: the brokers that it is
    linked with are to know."""

    resource: str
    short: bool


FileEffect: TypeAlias = StoreFiles | LoadFile
"""Effects that files are needed for; each is answered by one input, later."""

Effect: TypeAlias = (
    SendBytes
    | Close
    | StopReading
    | ResumeReading
    | Observe
    | StoreFiles
    | LoadFile
    | Report
    | AlarmChanged
)
