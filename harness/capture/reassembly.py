"""Reassembles TCP segments into streams: the bytes in order, the time at which each byte could
first be read, and the missing bytes.

A byte is dated by the packet that completed the stream up to it, so bytes after a retransmitted
hole have the retransmission's time. If bytes arrive twice, the first copy is used. A hole is *lost*
once the other side has acknowledged it and :data:`GRACE` has passed: the receiver has the bytes,
but they will never appear in the capture. A hole is also lost once too many bytes are held after
it. While one direction has a hole, the other direction waits too, so that both are released in time
order.

Source: RFC 9293, 3.4 (sequence numbers modulo 2**32), 3.8.4 (keep-alives), 3.10.7 (segments)."""

from bisect import insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from brokerproof.harness.capture.tcp_packets import ACK, FIN, RST, SYN, Packet
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Duration, Instant, ms, seconds

GRACE: Duration = ms(200)
"""The longest time by which a packet may be captured after its acknowledgement."""
PATIENCE: Duration = seconds(30)
"""The longest time that an unacknowledged hole stays open. A capture of only one direction has no
acknowledgements, so it needs this limit."""
MOST_WAITING = 4 << 20
"""The maximum number of bytes held after the holes of one connection."""

LOST, CUT = "LOST", "CUT"


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes that side ``side`` (0 or 1) sent."""

    at: Instant
    side: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Missing:
    """``size`` bytes, sent no earlier than ``since``, were not captured. ``why`` is LOST, or CUT
    for bytes cut off by the snapshot length."""

    at: Instant
    side: int
    size: int
    why: str
    since: Instant


@dataclass(frozen=True, slots=True)
class Ended:
    """A side ended its direction (EOF) or the connection (RESET)."""

    at: Instant
    side: int
    how: CloseHow


Piece: TypeAlias = Bytes | Missing | Ended

_Run: TypeAlias = tuple[int, int, Instant, bytes | None]
"""The first byte's number, the end, the instant of arrival, and the bytes (None: cut off)."""


@dataclass
class _Half:
    """One direction. Its sequence numbers do not wrap at 2**32."""

    side: int
    next: int | None = None
    """The number of the first byte that has not been released."""
    begun: bool = False
    """True if the SYN of this direction was seen."""
    at: Instant = 0
    runs: list[_Run] = field(default_factory=list)
    waiting: int = 0
    """The number of bytes in ``runs``."""
    acked: int = -1
    acked_at: Instant = 0
    """The instant at which the missing bytes were first acknowledged."""
    hole_at: Instant = 0
    """The instant at which the current hole was first noticed."""
    end: int | None = None
    ended: bool = False

    def number(self, low: int) -> int:
        """Extend a 32-bit number to the value nearest to the current position."""
        assert self.next is not None
        return self.next + ((low - self.next + 2**31) % 2**32) - 2**31

    @property
    def holed(self) -> bool:
        """True if bytes are known to have been sent but are missing."""
        if self.next is None or self.ended:
            return False
        behind = bool(self.runs) and self.runs[0][0] > self.next
        return behind or (not self.runs and (self.acked > self.next or (self.end or 0) > self.next))

    def take(self, begin: int, size: int, at: Instant, data: bytes | None) -> None:
        """Keep those of the ``size`` bytes from ``begin`` on that are new."""
        assert self.next is not None
        end = begin + size
        at_begin = begin
        for low, high, _, has in [*self.runs]:
            if has is None and data is not None and begin < high and low < end:
                self._uncover(low, high, begin, end)
        position = max(begin, self.next)
        for low, high, *_ in [*self.runs]:
            if high <= position:
                continue
            if low >= end:
                break
            if low > position:
                self._put(position, low, at, data, at_begin)
            position = max(position, high)
        if position < end:
            self._put(position, end, at, data, at_begin)

    def _put(self, begin: int, end: int, at: Instant, data: bytes | None, origin: int) -> None:
        part = None if data is None else data[begin - origin : end - origin]
        insort(self.runs, (begin, end, at, part), key=lambda run: run[0])
        self.waiting += end - begin

    def _uncover(self, low: int, high: int, begin: int, end: int) -> None:
        """Forget truncated ranges whose bytes have since arrived."""
        place = next(at for at, run in enumerate(self.runs) if run[0] == low)
        _, _, at, _ = self.runs.pop(place)
        rest = [(low, min(high, begin)), (max(low, end), high)]
        left = [(first, last, at, None) for first, last in rest if first < last]
        self.runs[place:place] = left
        self.waiting -= (high - low) - sum(last - first for first, last, *_ in left)

    def ready(self) -> Iterator[Piece]:
        """Yield the bytes that can be released."""
        while self.runs and self.next is not None and self.runs[0][0] <= self.next:
            begin, end, at, data = self.runs.pop(0)
            self.waiting -= end - begin
            since, self.at, self.next = self.at, max(self.at, at), end
            if data is None:
                yield Missing(self.at, self.side, end - begin, CUT, since)
            else:
                yield Bytes(self.at, self.side, data)
        if (
            self.end is not None
            and self.next is not None
            and self.next >= self.end
            and not self.ended
        ):
            self.ended = True
            yield Ended(self.at, self.side, CloseHow.EOF)

    def give_up(self, now: Instant) -> Iterator[Piece]:
        """Stop waiting for the bytes that are missing before the next ones."""
        assert self.next is not None
        ends = [run[0] for run in self.runs[:1]]
        if not ends:
            ends = [offset for offset in (self.acked, self.end or 0) if offset > self.next]
        size, since = min(ends) - self.next, self.at
        # The missing bytes were sent before their acknowledgement and before the bytes after them.
        given_up = [run[2] for run in self.runs[:1]] + (
            [self.acked_at] if self.acked > self.next else []
        )
        self.at, self.next = max(self.at, min(given_up, default=now)), self.next + size
        yield Missing(self.at, self.side, size, LOST, since)
        yield from self.ready()


def _rank(number: int, piece: Piece) -> tuple[Instant, bool, int]:
    """The sort key of pieces from both sides. At equal instants missing bytes come first, since the
    other side may have answered them."""
    return piece.at, not isinstance(piece, Missing), number


@dataclass
class Stream:
    """One connection between two endpoints, in both directions (side 0 sent the first packet)."""

    halves: tuple[_Half, _Half] = field(default_factory=lambda: (_Half(0), _Half(1)))
    opener: int | None = None
    """The side that opened the connection, if seen."""
    first: int = 0
    """The sequence number of the SYN. It shows whether a later SYN belongs to the same
    connection."""
    distance: Duration | None = None
    """The time between the SYN and its answer at the point of capture; None if not seen."""
    smooth: bool = False
    """True while neither direction has ended or waits for missing bytes."""
    _asked_at: Instant | None = None
    _held: list[Piece] = field(default_factory=list)
    _held_size: int = 0

    @property
    def over(self) -> bool:
        return all(half.ended for half in self.halves)

    @property
    def holed(self) -> bool:
        """True if the stream waits for missing bytes."""
        return any(half.holed for half in self.halves)

    def feed(self, side: int, packet: Packet) -> Sequence[Piece]:
        """Return the pieces, in order, that a packet from ``side`` completes."""
        if self.smooth and not packet.flags & (SYN | FIN | RST) and not packet.cut:
            usual = self._usual(self.halves[side], self.halves[1 - side], packet)
            if usual is not None:
                return usual
        pieces = [*self._any(side, packet)]
        self.smooth = not self._held and all(
            half.next is not None
            and half.end is None
            and not half.runs
            and not half.ended
            and not half.holed
            for half in self.halves
        )
        return pieces

    @staticmethod
    def _usual(mine: _Half, other: _Half, packet: Packet) -> Sequence[Piece] | None:
        """The fast path for nearly every packet: one that continues where the last one ended and
        acknowledges no missing bytes."""
        assert mine.next is not None
        assert other.next is not None
        if packet.flags & ACK:
            acked = other.number(packet.ack)
            if acked > other.next:
                return None
            other.acked = max(other.acked, acked)
        size = len(packet.payload)
        if not size:
            return ()
        skipped = mine.next - mine.number(packet.seq)
        if skipped < 0:
            return None
        if skipped >= size:
            return ()
        mine.next += size - skipped
        mine.at = max(mine.at, packet.at)
        return (Bytes(mine.at, mine.side, packet.payload[skipped:]),)

    def _any(self, side: int, packet: Packet) -> Iterator[Piece]:
        at, flags = packet.at, packet.flags
        mine, other = self.halves[side], self.halves[1 - side]
        begin = packet.seq
        if flags & SYN:
            self._opened(side, packet)
            begin = (begin + 1) % 2**32
        if flags & ACK:
            self._acknowledged(other, packet.ack, at)
        size = len(packet.payload) + packet.cut
        if mine.next is None and (size or flags & (SYN | FIN)):
            mine.next, mine.at = begin, at
        if mine.next is not None:
            number = mine.number(begin)
            if packet.payload:
                mine.take(number, len(packet.payload), at, packet.payload)
            if packet.cut:
                mine.take(number + len(packet.payload), packet.cut, at, None)
            if flags & FIN and mine.end is None:
                mine.end = number + size
                mine.at = max(mine.at, at) if mine.next >= mine.end else mine.at
        pieces = [*mine.ready()]
        if mine.holed and not mine.hole_at:
            mine.hole_at = at
        yield from self._in_order(pieces, at)
        if flags & RST and not self.over:
            yield from self.give_up(at)
            yield from self._reset(side, at)

    def _opened(self, side: int, packet: Packet) -> None:
        half = self.halves[side]
        if not packet.flags & ACK:
            self._asked_at = packet.at if self.opener is None else self._asked_at
            self.opener, self.first = side, packet.seq
        elif self.distance is None and self.opener == 1 - side and self._asked_at is not None:
            self.distance = packet.at - self._asked_at
        elif self.opener is None:
            self.opener, self.first = 1 - side, (packet.ack - 1) % 2**32
        half.begun = True
        if half.next is None:
            half.next, half.at = (packet.seq + 1) % 2**32, packet.at

    @staticmethod
    def _acknowledged(half: _Half, ack: int, at: Instant) -> None:
        if half.next is None:
            half.next, half.at = ack, at
            return
        number = half.number(ack)
        if half.end is not None and number > half.end:
            number = half.end  # a FIN occupies one sequence number
        if number > half.acked:
            # Answers to the missing bytes follow the first acknowledgement of these bytes.
            half.acked_at = half.acked_at if half.acked > half.next else at
            half.acked = number
            if half.holed and not half.hole_at:
                half.hole_at = at

    def _in_order(self, pieces: list[Piece], now: Instant) -> Iterator[Piece]:
        self._held += pieces
        self._held_size += sum(len(item.data) for item in pieces if isinstance(item, Bytes))
        full = self._held_size + sum(half.waiting for half in self.halves) > MOST_WAITING
        for half in self.halves:
            while half.holed and (full or self._hopeless(half, now)):
                self._held += half.give_up(now)
            if not half.holed:
                half.hole_at = 0
        if not self.holed:
            yield from self._release()

    @staticmethod
    def _hopeless(half: _Half, now: Instant) -> bool:
        assert half.next is not None
        begin = half.runs[0][0] if half.runs else half.next + 1
        if half.acked >= begin and now - half.acked_at > GRACE:
            return True
        return bool(half.hole_at) and now - half.hole_at > PATIENCE

    def _release(self) -> Iterator[Piece]:
        held, self._held, self._held_size = self._held, [], 0
        sides = [
            deque(segment for segment in enumerate(held) if segment[1].side == side)
            for side in (0, 1)
        ]
        while any(sides):
            yield min((side for side in sides if side), key=lambda side: _rank(*side[0])).popleft()[
                1
            ]

    def _reset(self, side: int, at: Instant) -> Iterator[Piece]:
        for half in self.halves:
            half.ended = True
        yield Ended(at, side, CloseHow.RESET)

    def pass_time(self, now: Instant) -> Iterator[Piece]:
        """Yield the holes that have not been filled by ``now``."""
        yield from self._in_order([], now)

    def give_up(self, now: Instant) -> Iterator[Piece]:
        """Release everything still held, because the capture or the connection has ended."""
        for half in self.halves:
            while half.holed:
                self._held += half.give_up(now)
        yield from self._release()
