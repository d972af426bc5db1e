"""The verbs of conversations in virtual and real time: send, expect, expect nothing, expect the
end.

These rules hold for every peer:

* ``expect`` takes the first matching frame and leaves the others in the inbox, so every legal
  interleaving passes. Some failures (an ERROR, the close of the connection) end the wait
  immediately.
* An expectation either *proves* requirements (``proves=``) or is a control. A failed proof is a
  violation by the broker. A failed control is never a FAIL but a "precondition not met".
* Every expectation has a time limit. Heartbeats and other signs of life do not count as frames.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Literal, Protocol, TypeVar

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Duration, Instant, in_ms, seconds
from brokerproof.harness.protocols.byte_log import Expectation, Shape
from brokerproof.harness.trace.events import (
    RECORDED_BYTES,
    ConnectionAbandoned,
    ConnectionClosed,
    Event,
    HeartBeatSent,
    LinkFaulted,
    OctetsSent,
)
from brokerproof.harness.worlds.world import Channel, ForwardingChannel, World

PATIENCE: Duration = seconds(10)
"""The time limit of an expectation that has none of its own."""


LOST = "the connection was reset, and what the broker had sent before may be lost"
"""The reason why nothing is a violation after a reset on a path that may lose earlier data."""

Requirements = str | tuple[str, ...]


class Violated(Exception):
    """The broker violated a requirement and the case cannot go on. The finding was recorded."""


class Symptom(StrEnum):
    """Why a connection to the target failed."""

    ABSENT = "absent"
    """The target is not known to offer the feature, so the broker was not asked."""

    UNMET = "unmet"
    """A premise of all cases of this kind does not hold on this broker. It was checked only
    once."""

    UNREACHABLE = "unreachable"
    CLOSED = "closed"
    REFUSED = "refused"
    """An answer other than the expected one."""


class ControlFailed(Exception):
    """Something on which the case relies failed: its setup or a positive control. This proves
    nothing about the requirement."""

    def __init__(self, detail: str, symptom: Symptom = Symptom.REFUSED) -> None:
        super().__init__(detail)
        self.symptom = symptom


class Judge(Protocol):
    """The part of the bench that a conversation needs: recording events and findings."""

    world: World

    def record(self, event: Event) -> None: ...

    def mark_inconclusive(self, reason: str) -> None: ...

    def record_finding(
        self,
        requirements: Requirements,
        held: bool,
        detail: str,
        *,
        uncertain: str | None = None,
        expectation: Expectation | None = None,
    ) -> bool: ...

    def record_held(self, requirements: Requirements, evidence: object, detail: str) -> None: ...


class CaseClock(Protocol):
    """The part of a bench that lets time pass, and records steps for the report."""

    def now(self) -> Instant: ...

    def advance(self, duration: Duration) -> None: ...

    def wait_until(self, ready: Callable[[], bool], within: Duration) -> bool: ...

    def record_note(self, detail: str) -> None: ...


F = TypeVar("F")


@dataclass(frozen=True)
class Match(Generic[F]):
    """An expected frame, described in words."""

    words: str
    accepts: Callable[[F], bool]
    shape: Shape | None = None
    """Command, headers and body, unescaped, if nothing else is required of the frame."""

    def __str__(self) -> str:
        return self.words


def either(*matches: Match[F]) -> Match[F]:
    return Match(
        " or ".join(map(str, matches)),
        lambda candidate: any(match.accepts(candidate) for match in matches),
    )


@dataclass(frozen=True, slots=True)
class Ended:
    """The broker's close of the connection: when and how it happened."""

    at: Instant
    how: CloseHow


class RecordedFaults(ForwardingChannel):
    """Records what a client does to its link besides writing and closing, because it may end the
    connection."""

    def __init__(self, channel: Channel, world: World, judge: Judge, conn: int) -> None:
        self._channel = channel
        self._world = world
        self._judge = judge
        self._conn = conn

    def _record(self, detail: str) -> None:
        self._judge.record(LinkFaulted(at_ns=self._world.now(), conn=self._conn, detail=detail))

    def write(self, data: bytes) -> None:
        self._channel.write(data)

    def half_close(self) -> None:
        self._record("the client ends its direction")
        self._channel.half_close()

    def close(self) -> None:
        self._channel.close()

    def cut(self) -> None:
        self._channel.cut()

    def hold_reading(self, held: bool) -> None:
        self._record("the client stops reading" if held else "the client reads on")
        self._channel.hold_reading(held)


class Conversation(Generic[F]):
    """A conversation over one connection in frames of type ``F``. Subclasses decode the bytes."""

    protocol = "octets"
    is_raw = True
    """False if a client library speaks, because it sends its own heartbeats."""

    def __init__(self, judge: Judge, conn: int, acceptor: str) -> None:
        self.judge, self.world, self.conn, self.acceptor = judge, judge.world, conn, acceptor
        self.inbox: list[F] = []
        """Received frames that no expectation has taken, oldest first."""
        self.ended: Ended | None = None
        self.heard_at: Instant | None = None
        """Instant at which the last byte arrived."""
        self.spoke_at: Instant | None = None
        """Instant at which the last byte was handed to the link."""
        self.began_at: Instant | None = None
        """Instant at which the first byte was handed to the link."""
        self.longest_pause: Duration = 0
        """The longest time between two writes so far."""
        self._channel: Channel | None = None
        self._pieces: list[bytes] | None = None

    # provided by subclasses

    def decode(self, at: Instant, data: bytes) -> None:
        """Turn bytes into events, and into frames in :attr:`inbox`."""
        raise NotImplementedError

    def fatal(self, frame: F) -> bool:
        """Return True if ``frame`` can only mean that something failed."""
        raise NotImplementedError

    def words(self, frame: F) -> str:
        raise NotImplementedError

    def on_the_wire(self, shape: Shape) -> Shape:
        """Return ``shape`` with its headers escaped as they are on this connection."""
        return shape

    # the link

    def use(self, channel: Channel) -> None:
        self._channel = channel

    def bytes_arrived(self, at: Instant, data: bytes) -> None:
        self.heard_at = at
        self.decode(at, data)

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        self.ended = Ended(at, how)
        self.judge.record(ConnectionClosed(at_ns=at, conn=self.conn, how=how))
        # A client with its own socket reads continuously, so its window stays open.
        whole = self.world.is_local if self._channel is None else self._channel.all_received
        if how is CloseHow.RESET and not whole:
            self.judge.mark_inconclusive(LOST)

    @property
    def channel(self) -> Channel:
        """The link. Raises :class:`ControlFailed` before the connection is open."""
        if self._channel is None:
            raise ControlFailed("this peer was never connected")
        return self._channel

    def write(self, data: bytes, *, as_event: bool = True) -> None:
        """Pass any bytes to the link."""
        now = self.world.now()
        if as_event:
            self.judge.record(
                OctetsSent(at_ns=now, conn=self.conn, data=data[:RECORDED_BYTES], size=len(data))
            )
        if self.began_at is None:
            self.began_at = now
        if self.spoke_at is not None:
            self.longest_pause = max(self.longest_pause, now - self.spoke_at)
        self.spoke_at = now
        if self._pieces is None:
            self.channel.write(data)
        else:
            self._pieces.append(data)

    @contextmanager
    def in_one_write(self) -> Iterator[None]:
        """Collect everything written in the block and pass it to the link in one piece, so that the
        broker may read it in one piece."""
        self._pieces = []
        try:
            yield
        finally:
            data, self._pieces = b"".join(self._pieces), None
            self.channel.write(data)

    def beat(self, data: bytes = b"\n") -> None:
        self.judge.record(
            HeartBeatSent(
                at_ns=self.world.now(), conn=self.conn, protocol=self.protocol, size=len(data)
            )
        )
        self.write(data, as_event=False)

    @property
    def answered_after(self) -> Duration:
        """Return how long after our last byte the broker's last byte arrived; 0 if none did. Until
        it arrived, the broker may not have read our byte or started the timer for our silence."""
        if self.heard_at is None or self.spoke_at is None:
            return 0
        return max(0, self.heard_at - self.spoke_at)

    def overdue(self, promised: Duration) -> str | None:
        """Return why a close for silence is no evidence against the broker; None if it is evidence.
        On a busy host, we may have been silent for longer than promised, or the broker may have
        read our bytes too late."""
        if self.began_at is None or self.spoke_at is None:
            return None
        last = self.world.now() if self.ended is None else self.ended.at
        pause = max(self.longest_pause, last - self.spoke_at)
        late = self.world.lateness(self.began_at)
        if pause + late <= promised:
            return None
        return (
            f"our own longest pause was {_text(pause)}, and the host late by {_text(late)}, of"
            f" {_text(promised)} promised"
        )

    def close_socket(self, how: CloseHow = CloseHow.EOF) -> None:
        """Close the connection from our side without a frame: cleanly, or with a RESET."""
        self.judge.record(ConnectionAbandoned(at_ns=self.world.now(), conn=self.conn, how=how))
        if how is CloseHow.RESET:
            self.channel.cut()
        else:
            self.channel.close()

    # expectations

    def take(self, what: Match[F]) -> F | None:
        """Remove and return the first frame in the inbox that matches."""
        for position, frame in enumerate(self.inbox):
            if what.accepts(frame):
                return self.inbox.pop(position)
        return None

    def expect(
        self, what: Match[F], *, within: Duration = PATIENCE, proves: Requirements | None = None
    ) -> F:
        """Wait for the first frame that matches.

        Raises :class:`Violated` (if ``proves`` is given) or :class:`ControlFailed` if no such frame
        arrives ``within`` that time, if the connection ends, or if a fatal frame arrives instead.
        """
        until = self.world.now() + within
        frame = self.watch_for(what, within=within)
        if frame is None:
            unmet = self._unmet_frame("frame", what, until)
            self._unmet(
                f"expected {what} within {_text(within)}, but {self.instead()}", proves, unmet
            )
        assert frame is not None
        if proves is not None:
            self.judge.record_held(proves, frame, f"got {self.words(frame)}")
        return frame

    def watch_for(self, what: Match[F], *, within: Duration = PATIENCE) -> F | None:
        """Like :meth:`expect`, but return None instead of raising, for cases with several legal
        outcomes."""

        arrived = self.arrival(lambda frame: what.accepts(frame) or self.fatal(frame))
        self.world.wait_until(
            lambda: self.ended is not None or arrived(), self.world.now() + within
        )
        return self.take(what)

    def arrival(self, accepts: Callable[[F], bool]) -> Callable[[], bool]:
        """Return a condition to wait for: the inbox has held a frame for which ``accepts`` is true.
        The condition examines each frame only once, since it is checked after every event and
        inboxes can be long."""
        seen, found = 0, False

        def arrived() -> bool:
            nonlocal seen, found
            found = found or any(map(accepts, self.inbox[seen:]))
            seen = len(self.inbox)
            return found

        return arrived

    def expect_nothing(
        self,
        *,
        for_: Duration,
        of: Match[F] | None = None,
        proves: Requirements | None = None,
        why: str = "",
    ) -> None:
        """Let ``for_`` pass; expect no frame (matching ``of``, if given) and an open connection."""

        def disturbs(frame: F) -> bool:
            return of is None or of.accepts(frame) or self.fatal(frame)

        until, disturbed = self.world.now() + for_, self.arrival(disturbs)
        silent = not self.world.wait_until(lambda: self.ended is not None or disturbed(), until)
        if not silent:
            expected = f"no {of}" if of is not None else "no frame"
            extra = sum(map(disturbs, self.inbox))
            unmet = self._unmet_frame("silence", of, until, extra)
            self._unmet(
                f"expected {expected} for {_text(for_)}{_because(why)}, but {self.instead()}",
                proves,
                unmet,
            )
        elif proves is not None:
            self.judge.record_finding(
                proves, silent, f"nothing arrived for {_text(for_)}{_because(why)}"
            )

    def expect_end(
        self, *, within: Duration = PATIENCE, proves: Requirements | None = None
    ) -> Ended:
        """Wait until the broker has closed the connection, whatever it sends before that."""
        until = self.world.now() + within
        if not self.world.wait_until(lambda: self.ended is not None, until):
            unmet = Expectation(kind="end", words="the broker closes", conn=self.conn, until=until)
            detail = (
                f"the broker did not close the connection within {_text(within)}; {self.instead()}"
            )
            self._unmet(detail, proves, unmet)
        assert self.ended is not None
        if proves is not None:
            self.judge.record_held(proves, self.ended, f"the broker closed ({self.ended.how})")
        return self.ended

    def instead(self) -> str:
        """Return what arrived instead, for a sentence about a missing frame."""
        seen = "; ".join(self.words(frame) for frame in self.inbox[:3])
        more = f" and {len(self.inbox) - 3} more" if len(self.inbox) > 3 else ""
        end = f"the connection ended ({self.ended.how})" if self.ended is not None else ""
        parts = filter(None, (f"got {seen}{more}" if seen else "", end))
        return ", then ".join(parts) or "nothing arrived"

    def wanted(self, what: Match[F]) -> Expectation | None:
        """Return the expectation that one more frame matching ``what`` arrives; None if only the
        case can tell which frames match."""
        return self._unmet_frame("frame", what, self.world.now())

    def unwanted(self, what: Match[F], count: int = 1) -> Expectation | None:
        """Return the expectation that the last ``count`` frames matching ``what`` do not arrive,
        whatever else does; None if only the case can tell which frames match."""
        return self._unmet_frame("absence", what, self.world.now(), count)

    def staying_open(self) -> Expectation:
        """Return the expectation that the broker does not close this connection."""
        return Expectation(
            kind="open", words="the connection stays open", conn=self.conn, until=self.world.now()
        )

    def closed_by_now(self) -> Expectation:
        return Expectation(
            kind="end", words="the broker closes", conn=self.conn, until=self.world.now()
        )

    def _unmet_frame(
        self,
        kind: Literal["frame", "absence", "silence"],
        what: Match[F] | None,
        until: Instant,
        extra: int = 0,
    ) -> Expectation | None:
        if what is not None and what.shape is None:
            return None  # only the case knows what it is looking for
        shape = None if what is None or what.shape is None else self.on_the_wire(what.shape)
        words = "any frame" if what is None else str(what)
        return Expectation(
            kind=kind, words=words, conn=self.conn, shape=shape, extra=extra, until=until
        )

    def _unmet(
        self, detail: str, proves: Requirements | None, unmet: Expectation | None = None
    ) -> None:
        if proves is None:
            is_answered = any(map(self.fatal, self.inbox))
            closed = self.ended is not None and not is_answered
            raise ControlFailed(detail, Symptom.CLOSED if closed else Symptom.REFUSED)
        self.judge.record_finding(proves, False, detail, expectation=unmet)
        raise Violated(detail)


def _text(duration: Duration) -> str:
    return f"{in_ms(duration)} ms"


def _because(why: str) -> str:
    return f" ({why})" if why else ""
