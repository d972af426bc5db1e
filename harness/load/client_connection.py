"""The common part of load connections. Several producers and consumers share a connection. Each
protocol has a subclass (``harness/load/PROTOCOL_client.py``) that writes and reads frames. A
connection receives bytes from the world and the time from its driver, and keeps its totals in
:class:`Counters`."""

import random
from collections import Counter
from dataclasses import dataclass, field

from brokerproof.harness.load.latencies import Latencies
from brokerproof.harness.load.plan import STAMP_BYTES, Consumer, Plan, Producer
from brokerproof.harness.load.protocols import NUMBERS
from brokerproof.harness.load.wire_log import WireLog
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Duration, Instant
from brokerproof.harness.trace.events import (
    ConnectionAbandoned,
    ConnectionClosed,
    ConnectionOpened,
    Event,
    LinkFaulted,
)
from brokerproof.harness.trace.stamp import stamp
from brokerproof.harness.worlds.real import RealWorld

BURST = 64
"""The maximum number of messages of one producer that are written together, so that other producers
do not wait long."""
UNSENT = 256 * 1024
"""The maximum number of bytes that may wait for the socket if nothing else limits messages in
flight."""


@dataclass
class Counters:
    """The totals so far. ``left`` is the number of connections that the broker closed. Instants are
    on the clock that stamps bodies; 0 means never."""

    sent: int = 0
    sent_octets: int = 0
    confirmed: int = 0
    refused: int = 0
    received: int = 0
    received_octets: int = 0
    settled: int = 0
    redelivered: int = 0
    sent_until: Instant = 0
    received_until: Instant = 0
    connections: int = 0
    left: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    delivery: Latencies = field(default_factory=Latencies)
    confirmation: Latencies = field(default_factory=Latencies)


@dataclass
class ProducerState:
    """The progress of a producer, kept when it reconnects. ``waiting`` is the number of unconfirmed
    messages."""

    about: Producer
    next: int = 0
    due: Instant = 0
    waiting: int = 0


@dataclass
class DriverContext:
    world: RealWorld
    plan: Plan
    tape: WireLog | None
    dice: random.Random
    filler: bytes
    tally: Counters = field(default_factory=Counters)
    offset: Duration = 0
    """How far the clock that stamps bodies is ahead of ours."""
    producing: bool = False
    conns: int = 0

    def record(self, event: Event) -> None:
        if self.tape is not None:
            self.tape.event(event)

    def body(self, producer: int, number: int, at: Instant) -> bytes:
        size = self.plan.sizes.draw(self.dice)
        return b"%b%019d;%b" % (
            stamp(producer, number),
            at + self.offset,
            self.filler[: size - STAMP_BYTES],
        )


class ClientConnection:
    """Connection ``number`` of the plan. ``conn`` changes with each attempt to connect."""

    def __init__(
        self,
        host: DriverContext,
        number: int,
        senders: list[ProducerState],
        consumers: list[Consumer],
    ) -> None:
        self.host = host
        self.number = number
        self.senders = senders
        self.consumers = consumers
        self._number = NUMBERS[self.protocol]
        self.conn = 0
        self.up = False
        """True once messages can pass."""
        self.over = True
        """True while there is no connection."""
        self.leaving = False
        self.failed = ""
        """Why the broker refused the connection, as a sentence."""
        self.spoken: Instant = 0
        self.silence: Duration = 0
        """The longest time for which we may send nothing; 0 if unlimited."""

    # defined by each protocol

    protocol = ""
    acronym = ""

    def greet(self) -> None:
        raise NotImplementedError

    def on_bytes_received(self, at: Instant, data: bytes) -> None:
        raise NotImplementedError

    def post(self, sender: ProducerState, count: int, now: Instant) -> int:
        """Write at most ``count`` messages; return how many fitted."""
        raise NotImplementedError

    def disconnect(self) -> None:
        """Send the closing frame. The connection ends once the broker has answered."""
        raise NotImplementedError

    def beat(self, now: Instant) -> None:
        raise NotImplementedError

    # common part

    def open(self) -> None:
        """Connect and send the first frames. Raises
        :class:`brokerproof.harness.worlds.world.Unreachable`."""
        host = self.host
        host.conns += 1
        self.conn = host.conns
        self.up = self.leaving = False
        self.failed = ""
        self.channel = host.world.open(host.plan.acceptor, self)
        self.over = False
        now = self.spoken = host.world.now()
        host.tally.connections += 1
        host.record(
            ConnectionOpened(
                at_ns=now,
                conn=self.conn,
                protocol=self.acronym,
                acceptor=host.plan.acceptor,
                remote=self.channel.remote,
            )
        )
        self.greet()

    def write(self, data: bytes, now: Instant) -> None:
        self.spoken = now
        self.channel.write(data)

    def bytes_arrived(self, at: Instant, data: bytes) -> None:
        self.on_bytes_received(at, data)

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        self.host.record(ConnectionClosed(at_ns=at, conn=self.conn, how=how))
        if not self.leaving:
            self.host.tally.left += 1
            self.host.tally.errors[
                self.failed or f"the broker ended a connection ({how.value})"
            ] += 1
        self.ended()

    def end(self) -> None:
        """Close the connection cleanly unless it has ended."""
        if not self.over:
            self.host.record(
                ConnectionAbandoned(at_ns=self.host.world.now(), conn=self.conn, how=CloseHow.EOF)
            )
            self.channel.close()
            self.ended()

    def cut(self) -> None:
        if self.over:
            return
        now = self.host.world.now()
        self.host.record(LinkFaulted(at_ns=now, conn=self.conn, detail="cut"))
        self.host.record(ConnectionAbandoned(at_ns=now, conn=self.conn, how=CloseHow.RESET))
        self.channel.cut()
        self.ended()

    def stall(self, lasts: Duration) -> None:
        """Read nothing for a while, so that the broker's output backs up."""
        if self.over:
            return
        channel, now = self.channel, self.host.world.now()
        self.host.record(LinkFaulted(at_ns=now, conn=self.conn, detail=f"not read for {lasts} ns"))
        channel.hold_reading(True)
        self.host.world.at(now + lasts, lambda: channel.hold_reading(False))

    def ended(self) -> None:
        """Record the end of the connection. Unconfirmed messages stay unconfirmed."""
        self.over, self.up = True, False
        for sender in self.senders:
            sender.waiting = 0

    def pump(self, now: Instant) -> None:
        """Write the messages that are due and allowed."""
        plan = self.host.plan
        if not (self.up and self.host.producing) or self.leaving:
            return
        for sender in self.senders:
            count = BURST
            if plan.interval:
                count = min(count, (now - sender.due) // plan.interval + 1)
            if sender.about.messages:
                count = min(count, sender.about.messages - sender.next)
            if plan.confirmed:
                count = min(count, plan.in_flight - sender.waiting)
            elif self.channel.unsent > UNSENT:
                count = 0
            if count > 0:
                sender.due += self.post(sender, count, now) * plan.interval

    @property
    def hungry(self) -> bool:
        """True if any producer has messages left to send."""
        return (
            self.up
            and not self.leaving
            and any(
                not sender.about.messages or sender.next < sender.about.messages
                for sender in self.senders
            )
        )

    @property
    def credit(self) -> int:
        """The number of messages that the broker would accept now; 0 in protocols without
        credit."""
        return 0
