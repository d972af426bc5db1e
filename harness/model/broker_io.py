"""The contract between a broker and the world that drives it: inputs and effects, as data."""

from dataclasses import dataclass
from typing import TypeAlias

from brokerproof.harness.model.enums import CloseHow

# --- inputs: from a world to a broker -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connected:
    """A peer opened connection ``conn`` (a number that the driver chose and never reuses) on the
    acceptor named ``acceptor``.

    ``certificate`` is the subject of the client certificate, such as ``CN=ann, O=Example``.
    ``remote`` and ``local`` are the two ends, HOST:PORT; if ``local`` is empty, the acceptor's
    configured address is used."""

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
    """``conn`` is dead: the peer closed it, or the link broke."""

    conn: int
    how: CloseHow


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The instant that ``next_deadline()`` returned has been reached or passed."""


@dataclass(frozen=True, slots=True)
class WritePaused:
    """The peer of ``conn`` reads slowly, and much output is buffered on our side. The broker should
    stop sending to this peer until :class:`WriteResumed`."""

    conn: int


@dataclass(frozen=True, slots=True)
class WriteResumed:
    """The output buffered for the peer of ``conn`` is nearly flushed. The broker may send to this
    peer again."""

    conn: int


@dataclass(frozen=True, slots=True)
class FilesStored:
    """The :class:`StoreFiles` request ``ticket`` has finished. If it failed, ``problem`` says why
    in one sentence.

    ``full`` says that it failed for lack of space. After a failure, the content of the files in
    ``writes`` is undefined."""

    ticket: int
    problem: str | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class FileLoaded:
    """The bytes requested by :class:`LoadFile`, or the ``problem`` that prevented reading them."""

    ticket: int
    data: bytes
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ResourcesRead:
    """The memory that the broker uses, the installed and the addressable memory, and the free disk
    space, in bytes; None if unknown."""

    memory_used: int
    memory_total: int | None = None
    address_space: int | None = None
    disk_free: int | None = None


@dataclass(frozen=True, slots=True)
class LimitsSet:
    """An operator sets the limits of memory and disk alarms: a fraction of the memory (float) or
    bytes (int); None leaves a limit unchanged. ``paging`` is the fraction of the memory limit at
    which queues start paging messages to disk, on brokers that page."""

    memory: float | int | None = None
    disk: float | int | None = None
    paging: float | None = None


@dataclass(frozen=True, slots=True)
class AlarmElsewhere:
    """A linked broker has run short of ``resource`` (memory or disk), or has recovered."""

    node: str
    resource: str
    short: bool


@dataclass(frozen=True, slots=True)
class AtNode:
    """``event`` is for the broker ``node``, one of several brokers that are driven together."""

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


# --- effects: what a broker asks its world to do --------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendBytes:
    """Write ``data`` to ``conn``, after all earlier output."""

    conn: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close ``conn`` once its output has been flushed. Any further input on ``conn`` is ignored."""

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
    """The broker took a branch that exists because of ``requirement``; ``detail`` describes what
    happened."""

    conn: int
    requirement: str
    detail: str


@dataclass(frozen=True, slots=True)
class Write:
    """Write ``data`` into ``file`` at ``offset``. With ``sync`` it must survive a power failure
    before the next write begins.

    ``file`` is a path below the driver's folder, separated by ``/``. Missing files and folders are
    created."""

    file: str
    offset: int
    data: bytes
    sync: bool


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """Carry out ``writes`` in order, stopping at the first failure, then remove the files in
    ``removes``.

    First, the files in ``aside`` are copied to another folder and those in ``before`` are removed.
    Answered by :class:`FilesStored`. Only one request is outstanding at a time."""

    ticket: int
    writes: tuple[Write, ...]
    removes: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadFile:
    """Read ``length`` bytes of ``file`` starting at ``offset``, or as many as there are. Answered
    by :class:`FileLoaded`; several requests may be outstanding."""

    ticket: int
    file: str
    length: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """One sentence for the person who runs the broker."""

    sentence: str


@dataclass(frozen=True, slots=True)
class AlarmChanged:
    """This broker has run short of ``resource``, or has recovered; linked brokers must be
    notified."""

    resource: str
    short: bool


FileEffect: TypeAlias = StoreFiles | LoadFile
"""Effects on files; each is answered later by one input."""

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
