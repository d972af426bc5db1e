"""Virtual time: one heap of deadlines in integer nanoseconds. Time jumps to the next deadline.

Everything in flight is on the heap: if neither the heap nor the broker has anything before a
deadline, nothing can happen before it. So waiting takes no time, and silence is proved, not
assumed. At equal instants arrivals precede the broker's timers, and both precede the case's next
check.

The broker is anything with ``handle(now, input) -> effects`` and ``next_deadline()`` (ARCHITECTURE:
two kinds of time, one core). It is driven, never imported."""

import heapq
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from brokerproof.harness.model.broker_io import (
    AlarmChanged,
    BytesReceived,
    Close,
    Connected,
    Effect,
    FileEffect,
    Input,
    LoadFile,
    Observe,
    PeerGone,
    Report,
    ResumeReading,
    SendBytes,
    StopReading,
    StoreFiles,
    TimerFired,
    WritePaused,
    WriteResumed,
)
from brokerproof.harness.model.enums import Clock, CloseHow, Vantage
from brokerproof.harness.model.time import Duration, Instant
from brokerproof.harness.trace.events import Observed
from brokerproof.harness.worlds.bounds import CaseBounds
from brokerproof.harness.worlds.link import PERFECT, Direction, LinkFaults
from brokerproof.harness.worlds.tls import Certificate
from brokerproof.harness.worlds.world import Receiver, Unreachable

_MOST_TIMERS_AT_ONE_INSTANT = 10_000
SOCKET_BUFFER = 64 * 1024
"""The bytes that a link holds for a receiver that does not read, before the broker is notified."""


class SansIoBroker(Protocol):
    """A broker that the world can drive."""

    def handle(self, now: Instant, event: Input, /) -> Sequence[Effect]: ...

    def next_deadline(self) -> Instant | None: ...


PAGES = "paging/"
"""The part of a broker's files that contains its pages."""


class SansIoDisk(Protocol):
    """The files of a broker. The disk executes requests, and determines when the broker receives
    the results."""

    def carry(self, now: Instant, effect: FileEffect, /) -> tuple[Instant, Input]: ...

    def contents(self) -> Mapping[str, bytes]:
        """The content of each file, by path."""


class BrokerStuck(Exception):
    """The broker asks to be woken repeatedly at the same instant: a bug in the broker."""


class _Link:
    """Both ends and both directions of one simulated connection."""

    def __init__(
        self,
        world: "VirtualWorld",
        conn: int,
        receiver: Receiver,
        faults: LinkFaults,
        dice: random.Random,
    ) -> None:
        self._world, self._conn, self._receiver = world, conn, receiver
        self._up, self._down = Direction(faults, dice), Direction(faults, dice)
        self._writable = self._broker_open = self._receiver_open = True
        self._broker_reads = True
        self._receiver_reads = True
        self._unread_by_broker: list[bytes | CloseHow] = []
        self._unread_by_us: list[bytes | CloseHow] = []
        self._unread_bytes = 0
        self._broker_writes = True

    @property
    def remote(self) -> str:
        return f"virtual:{self._conn}"

    @property
    def local(self) -> str:
        return self.remote

    @property
    def security(self) -> str:
        return ""

    @property
    def all_received(self) -> bool:
        return True

    def secure(self, certificate: Certificate | None = None) -> None:
        """Do nothing: virtual time has no TLS."""

    # the harness's end

    def write(self, data: bytes) -> None:
        if not self._writable or not data:
            return
        for at, piece in self._up.carry(self._world.now(), data):
            self._world.at(at, partial(self._reach_broker, piece))

    def half_close(self) -> None:
        if self._writable:
            self._writable = False
            self._world.at(self._up.arrival(self._world.now()), partial(self._leave, CloseHow.EOF))

    def close(self) -> None:
        self.half_close()
        self._receiver_open = False

    def cut(self) -> None:
        self._writable = self._receiver_open = False
        self._leave(CloseHow.RESET)

    def hold_reading(self, held: bool) -> None:
        self._receiver_reads = not held
        if held:
            return
        waiting, self._unread_by_us = self._unread_by_us, []
        self._unread_bytes = 0
        for item in waiting:
            self._reach_us(item)
        self._press_back()

    # the broker's end

    def _reach_broker(self, data: bytes) -> None:
        if not self._broker_open:
            return
        if self._broker_reads:
            self._world.feed(BytesReceived(self._conn, data))
        else:
            self._unread_by_broker.append(data)

    def _leave(self, how: CloseHow) -> None:
        if self._broker_open and not self._broker_reads and how is CloseHow.EOF:
            # the end of the stream is read after the bytes before it
            self._unread_by_broker.append(how)
        elif self._broker_open:
            self._broker_open = False
            self._world.feed(PeerGone(self._conn, how))
            # The broker drops a connection whose peer has left without requesting Close, so our
            # side closes too.
            self._end(how)

    def apply(self, effect: SendBytes | Close | StopReading | ResumeReading) -> None:
        now = self._world.now()
        match effect:
            case SendBytes(data=data):
                for at, piece in self._down.carry(now, data):
                    self._world.at(at, partial(self._reach_us, piece))
            case Close():
                self._broker_open = False
                self._end(CloseHow.EOF)
            case StopReading():
                self._broker_reads = False
            case ResumeReading():
                self._broker_reads = True
                waiting, self._unread_by_broker = self._unread_by_broker, []
                for item in waiting:
                    if isinstance(item, bytes):
                        self._reach_broker(item)
                    else:
                        self._leave(item)

    def _end(self, how: CloseHow) -> None:
        self._world.at(self._down.arrival(self._world.now()), partial(self._reach_us, how))

    def _reach_us(self, what: bytes | CloseHow) -> None:
        if not self._receiver_open:
            return
        if not self._receiver_reads:
            self._unread_by_us.append(what)
            self._unread_bytes += len(what) if isinstance(what, bytes) else 0
            self._press_back()
        elif isinstance(what, bytes):
            self._receiver.bytes_arrived(self._world.now(), what)
        else:
            self._receiver_open = False
            self._receiver.channel_closed(self._world.now(), what)

    def _press_back(self) -> None:
        """Notify the broker when its writes start to wait for the receiver, and when they
        resume."""
        writes = self._unread_bytes <= SOCKET_BUFFER
        if writes is self._broker_writes or not self._broker_open:
            return
        self._broker_writes = writes
        self._world.feed(WriteResumed(self._conn) if writes else WritePaused(self._conn))


class VirtualWorld:
    """A world around one sans-I/O broker. ``acceptors`` are the names to which clients can connect;
    ``disk`` has the broker's files."""

    clock = Clock.VIRTUAL
    bounds = CaseBounds(None)
    is_local = True

    def __init__(
        self,
        broker: SansIoBroker,
        acceptors: Mapping[str, object],
        *,
        seed: int = 0,
        start: Instant = 0,
        observed: Callable[[Observed], None] | None = None,
        disk: SansIoDisk | None = None,
    ) -> None:
        self._broker, self._acceptors, self._now = broker, acceptors, start
        self._dice = random.Random(seed)
        self._observed, self._disk = observed, disk
        self._heap: list[tuple[Instant, int, Callable[[], None]]] = []
        self._order = 0
        self._links: dict[int, _Link] = {}
        self.reports: list[str] = []
        """The broker's messages to its operator."""
        self.faults: LinkFaults = PERFECT
        """The faults of links that are opened from now on."""

    def now(self) -> Instant:
        return self._now

    def of_host(self, duration: Duration) -> Duration:
        return duration

    def lateness(self, since: Instant, until: Instant | None = None) -> Duration:
        return 0

    def page_files(self, content: bytes) -> Mapping[str, int]:
        files = {} if self._disk is None else self._disk.contents()
        return {
            path.removeprefix(PAGES): len(data)
            for path, data in files.items()
            if path.startswith(PAGES) and content in data
        }

    def open(
        self,
        acceptor: str,
        receiver: Receiver,
        certificate: Certificate | None = None,
        *,
        plain: bool = False,
    ) -> _Link:
        if acceptor not in self._acceptors:
            raise Unreachable(
                f"the broker has no acceptor {acceptor!r}; it has"
                f" {', '.join(sorted(self._acceptors))}"
            )
        conn = len(self._links) + 1
        link = self._links[conn] = _Link(
            self, conn, receiver, self.faults, random.Random(self._dice.random())
        )
        self.feed(
            Connected(
                conn, acceptor, link.remote, None if certificate is None else certificate.subject
            )
        )
        return link

    def at(self, instant: Instant, action: Callable[[], None]) -> None:
        """Run ``action`` at ``instant`` (now, if that is past), after everything already scheduled
        for that instant."""
        self._order += 1
        heapq.heappush(self._heap, (max(instant, self._now), self._order, action))

    def feed(self, event: Input) -> None:
        """Pass one input to the broker now, and carry out the effects."""
        for effect in self._broker.handle(self._now, event):
            if isinstance(effect, Observe):
                if self._observed is not None:
                    self._observed(
                        Observed(
                            at_ns=self._now,
                            conn=effect.conn,
                            vantage=Vantage.BROKER,
                            requirement=effect.requirement,
                            detail=effect.detail,
                        )
                    )
            elif isinstance(effect, StoreFiles | LoadFile):
                if self._disk is None:
                    raise BrokerStuck("the broker needs files, but this world has no disk")
                at, answer = self._disk.carry(self._now, effect)
                self.at(at, partial(self.feed, answer))
            elif isinstance(effect, Report):
                self.reports.append(effect.sentence)
            elif isinstance(effect, AlarmChanged):
                continue  # this broker has no linked brokers
            elif effect.conn in self._links:
                self._links[effect.conn].apply(effect)

    def wait_until(self, ready: Callable[[], bool], deadline: Instant) -> bool:
        timers = 0
        while not ready():
            planned = self._heap[0][0] if self._heap else None
            due = self._broker.next_deadline()
            if (
                planned is not None
                and planned <= deadline
                and (due is None or planned <= max(due, self._now))
            ):
                self._now = planned
                heapq.heappop(self._heap)[2]()
                timers = 0
            elif due is not None and due <= deadline:
                timers = timers + 1 if due <= self._now else 0
                if timers > _MOST_TIMERS_AT_ONE_INSTANT:
                    raise BrokerStuck(
                        f"the broker asked {timers} times in a row to be woken at {due} ns,"
                        " without progress"
                    )
                self._now = max(self._now, due)
                self.feed(TimerFired())
            else:
                self._now = max(self._now, deadline)
                return ready()
        return True

    def close(self) -> None:
        self._links.clear()
        self._heap.clear()
