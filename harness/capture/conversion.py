"""Converts captured packets to a trace: follows connections, detects their protocols and decodes
their frames.

Connections in other protocols are skipped and counted. If a connection becomes unreadable (TLS),
its later bytes are reported as unseen. Memory holds only packets after gaps, incomplete frames, and
a little state per open connection."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from brokerproof.harness.capture.capture_events import CaptureEventFactory
from brokerproof.harness.capture.packet_order import Moment
from brokerproof.harness.capture.protocol_decoding import Speaker, speaker
from brokerproof.harness.capture.protocol_detection import (
    OTHER,
    TLS,
    WEBSOCKET,
    Recognised,
    recognised,
)
from brokerproof.harness.capture.reassembly import Bytes, Ended, Missing, Piece, Stream
from brokerproof.harness.capture.tcp_packets import ACK, SYN, Endpoint, Packet, text
from brokerproof.harness.model.enums import CloseHow, Vantage
from brokerproof.harness.model.time import Duration, Instant, ms
from brokerproof.harness.trace.events import (
    ConnectionAbandoned,
    ConnectionClosed,
    ConnectionOpened,
    Event,
)

NEAR: Duration = ms(5)
"""If a broker answers a SYN within this time, the capture was taken near the broker, so no network
can delay its signs of life unnoticed."""
SWEEP = 512
"""The number of packets after which the converter looks for holes that will never be filled."""
OVERTAKEN = 1 << 16
"""The maximum number of a connection's bytes that may be captured before its SYN."""
REMEMBERED = 4096
"""The number of ended connections that are remembered, to recognise their late packets."""


class Recorded(NamedTuple):
    """An event, and the broker endpoint (``address:port``) to which it belongs."""

    broker: str
    event: Event


@dataclass
class FollowedConnection:
    """One connection with its stream and, once detected, its protocol. Side 0 is the source of its
    first packet."""

    number: int
    ends: tuple[Endpoint, Endpoint]
    began: Instant
    stream: Stream = field(default_factory=Stream)
    client: int = 0
    broker: str = ""
    factory: CaptureEventFactory = field(init=False)
    protocol: str = ""
    speaker: Speaker | None = None
    ended: bool = False
    _waiting: list[Piece] = field(default_factory=list)
    _beginnings: dict[int, bytes] = field(default_factory=dict)
    _since: dict[int, Instant] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.factory = CaptureEventFactory(self.number)

    def take(self, piece: Piece) -> Iterator[Event]:
        """Yield the events of one piece of the stream, once the protocol is known."""
        if self.protocol == OTHER:
            return
        if self.protocol:
            yield from self._tell(piece)
            return
        self._waiting.append(piece)
        if isinstance(piece, Bytes):
            self._beginnings[piece.side] = self._beginnings.get(piece.side, b"") + piece.data
            begun = {side: self._begun(side) for side in (0, 1)}
            protocol = recognised(self._beginnings, begun)
            if protocol is not None:
                yield from self._known(protocol)

    def _begun(self, side: int) -> bool:
        return self.stream.halves[side].begun and not any(
            isinstance(item, Missing) and item.side == side for item in self._waiting
        )

    def _known(self, detected: Recognised) -> Iterator[Event]:
        self.protocol = detected.protocol
        waiting, self._waiting, self._beginnings = self._waiting, [], {}
        if detected.protocol == OTHER:
            return
        guess = self.stream.opener is None and detected.client is None
        self.client = self._client(detected)
        self.broker = text(self.ends[1 - self.client])
        begun = {side: self.stream.halves[side].begun or side in detected.first for side in (0, 1)}
        yield from self._opened(begun, guess)
        if detected.protocol == TLS:
            for side in (0, 1):
                yield self._unseen(self.began, side, "TLS")
            return
        whole = begun[0] or begun[1] or self.stream.opener is not None
        self.speaker = speaker(detected.protocol, self.factory, begun=whole)
        for side in (0, 1):
            # If the opening was captured, a side that has sent nothing yet has no gap. If only the
            # broker's first bytes were captured, the client's are missing.
            unheard = self.stream.opener is None and side == self.client
            if not begun[side] and (unheard or not whole):
                yield from self._missing(self.began, self.began, side, "BEGUN", 0)
        distance = self.stream.distance
        if whole and (distance is None or distance > NEAR):
            yield self._unseen(self.began, 1 - self.client, "FAR")
        for piece in waiting:
            yield from self._tell(piece)

    def _client(self, detected: Recognised) -> int:
        if self.stream.opener is not None:
            return self.stream.opener
        if detected.client is not None:
            return detected.client
        # The side with the lower port was listening.
        return 0 if self.ends[0][1] > self.ends[1][1] else 1

    def _opened(self, begun: dict[int, bool], guess: bool) -> Iterator[Event]:
        remote = text(self.ends[self.client])
        spoken = "STOMP" if self.protocol == WEBSOCKET else self.protocol
        if any(begun.values()):
            yield ConnectionOpened(
                at_ns=self.began,
                conn=self.number,
                vantage=Vantage.CAPTURE,
                protocol=spoken,
                acceptor=self.broker,
                remote=remote,
            )
        else:
            guessed = "; ports distinguished client and server" if guess else ""
            yield self.factory.noted(
                self.began,
                f"{remote} and the broker {self.broker}: the capture begins in the middle{guessed}",
            )

    def _tell(self, piece: Piece) -> Iterator[Event]:
        match piece:
            case Bytes(at, side, data):
                if self.speaker is not None:
                    yield from self.speaker.feed(at, side == self.client, data)
            case Missing(at, side, size, why, since):
                yield from self._missing(at, since, side, why, size)
            case Ended(at, side, how):
                yield from self._end(at, side, how)

    def _missing(
        self, at: Instant, since: Instant, side: int, why: str, size: int
    ) -> Iterator[Event]:
        if self.speaker is not None:
            yield from self.speaker.missing(at, since, side == self.client, why, size)

    def _unseen(self, at: Instant, side: int, why: str) -> Event:
        return self.factory.unseen(at, side == self.client, self.protocol, why)

    def _end(self, at: Instant, side: int, how: CloseHow) -> Iterator[Event]:
        if self.ended:
            return
        self.ended = True
        kind = ConnectionAbandoned if side == self.client else ConnectionClosed
        yield kind(at_ns=at, conn=self.number, vantage=Vantage.CAPTURE, how=how)

    def clock_set(self, at: Instant) -> Iterator[Event]:
        """Report that the clock was set back, so the elapsed time is unknown."""
        if self.speaker is not None and not self.ended:
            for side in (0, 1):
                yield self._unseen(at, side, "CLOCK")

    def finish(self, at: Instant) -> Iterator[Event]:
        """Finish this connection: the capture ended at ``at``, or a new connection replaced this
        one."""
        for piece in self.stream.give_up(at):
            yield from self.take(piece)
        if self.protocol not in ("", OTHER) and not self.ended:
            for side in (0, 1):
                yield self._unseen(at, side, "ENDS")


class Converter:
    """Turns packets into events. Connections are numbered ``first``, ``first + step`` …, so that
    several converters never use the same number."""

    def __init__(self, first: int = 1, step: int = 1) -> None:
        self._number, self._step = first, step
        self._open: dict[tuple[Endpoint, Endpoint], FollowedConnection] = {}
        self._over: OrderedDict[tuple[Endpoint, Endpoint], int] = OrderedDict()
        self._holed: set[tuple[Endpoint, Endpoint]] = set()
        self._packets = 0
        self._now: Instant = 0

    def events(self, moments: Iterable[Moment]) -> Iterator[Recorded]:
        """Yield the events of all packets in order; :meth:`finish` yields the rest."""
        for packet, reset in moments:
            if reset:
                for connection in [*self._open.values()]:
                    yield from self._recorded(connection, connection.clock_set(packet.at))
            yield from self.packet(packet)

    def packet(self, packet: Packet) -> Iterator[Recorded]:
        """Yield the events that one packet completes."""
        self._now = max(self._now, packet.at)
        one, other = packet.source, packet.target
        key = (one, other) if one <= other else (other, one)
        connection = self._open.get(key)
        opening = bool(packet.flags & SYN) and not packet.flags & ACK
        if connection is None:
            if self._late(key, packet, opening):
                return
            connection = self._new(key, packet)
        elif opening and not self._same(connection, packet):
            yield from self._finished(key, connection)
            connection = self._new(key, packet)
        side = 0 if connection.ends[0] == one else 1
        for piece in connection.stream.feed(side, packet):
            yield from self._recorded(connection, connection.take(piece))
        if connection.stream.smooth:
            pass
        elif connection.stream.over:
            self._forget(key, connection)
        elif connection.stream.holed:
            self._holed.add(key)
        self._packets += 1
        if self._packets % SWEEP == 0:
            yield from self._sweep()

    @staticmethod
    def _same(connection: FollowedConnection, packet: Packet) -> bool:
        """True if the SYN that opened this connection was sent again."""
        stream = connection.stream
        if stream.opener is not None:
            return stream.first == packet.seq
        half = stream.halves[0 if connection.ends[0] == packet.source else 1]
        # Later packets may overtake a SYN. No other connection has such close sequence numbers by
        # chance.
        return (
            half.next is None or 0 <= half.next - half.number((packet.seq + 1) % 2**32) < OVERTAKEN
        )

    def _late(self, key: tuple[Endpoint, Endpoint], packet: Packet, opening: bool) -> bool:
        """True if a packet belongs to a connection that has ended."""
        first = self._over.get(key)
        if first is None:
            return False
        if opening and first != packet.seq:
            del self._over[key]
            return False
        return True

    def _new(self, key: tuple[Endpoint, Endpoint], packet: Packet) -> FollowedConnection:
        connection = FollowedConnection(self._number, (packet.source, packet.target), packet.at)
        self._number += self._step
        self._open[key] = connection
        return connection

    def _sweep(self) -> Iterator[Recorded]:
        for key in [*self._holed]:
            connection = self._open.get(key)
            if connection is not None:
                for piece in connection.stream.pass_time(self._now):
                    yield from self._recorded(connection, connection.take(piece))
                if connection.stream.over:
                    self._forget(key, connection)
            if connection is None or not connection.stream.holed:
                self._holed.discard(key)

    def _forget(self, key: tuple[Endpoint, Endpoint], connection: FollowedConnection) -> None:
        del self._open[key]
        self._over[key] = connection.stream.first
        if len(self._over) > REMEMBERED:
            self._over.popitem(last=False)

    def _finished(
        self, key: tuple[Endpoint, Endpoint], connection: FollowedConnection
    ) -> Iterator[Recorded]:
        del self._open[key]
        self._holed.discard(key)
        yield from self._recorded(connection, connection.finish(self._now))

    def finish(self, at: Instant | None = None) -> Iterator[Recorded]:
        """Finish all connections; the last packet was captured at ``at``."""
        self._now = self._now if at is None else max(self._now, at)
        for key, connection in [*self._open.items()]:
            yield from self._finished(key, connection)

    @staticmethod
    def _recorded(connection: FollowedConnection, events: Iterable[Event]) -> Iterator[Recorded]:
        for event in events:
            yield Recorded(connection.broker, event)
