"""A line: one connection of a load, with the producers and consumers that share it. What all
protocols have in common.

A protocol's own class (``stomp_line.py``, ``amqp_line.py``) says what to write and reads what
comes. It is told of octets by the world, of time by its driver, and keeps count in :class:`Tally`.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from brokerproof.harness.load.latencies import Latencies
from brokerproof.harness.load.plan import STAMP_OCTETS, Consumer, Plan, Producer
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
"""Messages of one producer that are written at once at most, so that nobody else waits long."""
UNSENT = 256 * 1024
"""Octets that may wait for the socket where nothing else limits what is in flight."""


@dataclass
class Counters:
    """What happened so far. ``left``: connections that ended without us. Instants are of the clock
    in which bodies tell when they were sent; 0: never."""

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
    """A producer at work: it goes on where it was when its connection is another one. ``waiting``:
    without confirmation."""

    about: Producer
    next: int = 0
    due: Instant = 0
    waiting: int = 0


@dataclass
class DriverContext:
    """What a driver has for its lines."""

    world: RealWorld
    plan: Plan
    tape: WireLog | None
    dice: random.Random
    filler: bytes
    tally: Counters = field(default_factory=Counters)
    offset: Duration = 0
    """By how much the clock in which bodies tell when they were sent is ahead of ours."""
    producing: bool = False
    conns: int = 0

    def record(self, event: Event) -> None:
        """Keeps a fact that is no frame."""
        if self.tape is not None:
            self.tape.event(event)

    def body(self, producer: int, number: int, at: Instant) -> bytes:
        """The body of one message."""
        size = self.plan.sizes.draw(self.dice)
        return b"%b%019d;%b" % (
            stamp(producer, number),
            at + self.offset,
            self.filler[: size - STAMP_OCTETS],
        )


class ClientConnection:
    """One connection. ``number`` is that of the plan; ``conn`` is another one for each connection
    that is made."""

    def __init__(
        self,
        host: DriverContext,
        number: int,
        senders: list[ProducerState],
        consumers: list[Consumer],
    ) -> None:
        self.host, self.number, self.senders, self.consumers = host, number, senders, consumers
        self._number = NUMBERS[self.protocol]
        self.conn = 0
        self.up = False
        """Whether everything is agreed on, so that messages can pass."""
        self.over = True
        """Whether there is no connection."""
        self.leaving = False
        self.failed = ""
        """Why the broker would not have us, in a sentence."""
        self.spoken: Instant = 0
        self.silence: Duration = 0
        """How long we may say nothing; 0: as long as we like."""

    # what a protocol does

    protocol = ""
    acronym = ""

    def greet(self) -> None:
        """Begin to speak."""
        raise NotImplementedError

    def heard(self, at: Instant, data: bytes) -> None:
        """Octets came."""
        raise NotImplementedError

    def post(self, sender: ProducerState, count: int, now: Instant) -> int:
        """Write up to ``count`` messages; returns how many there was room for."""
        raise NotImplementedError

    def leave(self) -> None:
        """Say goodbye; the connection is over when the broker answered."""
        raise NotImplementedError

    def beat(self, now: Instant) -> None:
        """Write something that says that we live."""
        raise NotImplementedError

    # what is common

    def open(self) -> None:
        """Connect and begin to speak. Raises
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
        """Hand octets to the connection."""
        self.spoken = now
        self.channel.write(data)

    def octets_arrived(self, at: Instant, data: bytes) -> None:
        """See :class:`brokerproof.harness.worlds.world.Receiver`."""
        self.heard(at, data)

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        """See :class:`brokerproof.harness.worlds.world.Receiver`."""
        self.host.record(ConnectionClosed(at_ns=at, conn=self.conn, how=how))
        if not self.leaving:
            self.host.tally.left += 1
            self.host.tally.errors[
                self.failed or f"the broker ended a connection ({how.value})"
            ] += 1
        self.ended()

    def end(self) -> None:
        """Close what is over as far as we are concerned."""
        if not self.over:
            self.host.record(
                ConnectionAbandoned(at_ns=self.host.world.now(), conn=self.conn, how=CloseHow.EOF)
            )
            self.channel.close()
            self.ended()

    def cut(self) -> None:
        """Break the connection."""
        if self.over:
            return
        now = self.host.world.now()
        self.host.record(LinkFaulted(at_ns=now, conn=self.conn, detail="cut"))
        self.host.record(ConnectionAbandoned(at_ns=now, conn=self.conn, how=CloseHow.RESET))
        self.channel.cut()
        self.ended()

    def stall(self, lasts: Duration) -> None:
        """Read nothing for a while."""
        if self.over:
            return
        channel, now = self.channel, self.host.world.now()
        self.host.record(LinkFaulted(at_ns=now, conn=self.conn, detail=f"not read for {lasts} ns"))
        channel.hold_reading(True)
        self.host.world.at(now + lasts, lambda: channel.hold_reading(False))

    def ended(self) -> None:
        """The connection is gone; nobody will confirm what was not confirmed."""
        self.over, self.up = True, False
        for each in self.senders:
            each.waiting = 0

    def pump(self, now: Instant) -> None:
        """Write what is due and may be written."""
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
        """Whether somebody could send if only there were room."""
        return (
            self.up
            and not self.leaving
            and any(
                not each.about.messages or each.next < each.about.messages for each in self.senders
            )
        )

    @property
    def credit(self) -> int:
        """How many more messages the broker would take now; 0 in protocols without credit."""
        return 0
