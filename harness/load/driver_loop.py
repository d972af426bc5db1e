"""The loop of one load process: connects, performs its part of a plan, reconnects and reports."""

import random
import string
from typing import Any

from brokerproof.harness.load import protocols
from brokerproof.harness.load.client_connection import (
    ClientConnection,
    DriverContext,
    ProducerState,
)
from brokerproof.harness.load.plan import Fault, Plan
from brokerproof.harness.load.wire_log import WireLog
from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S, Duration, Instant
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.world import Unreachable

TICK: Duration = 2 * NS_PER_MS
"""The interval at which due messages are written; longer if few are due."""
LONGEST_TICK: Duration = 50 * NS_PER_MS
HAND_OVER: Duration = NS_PER_S
"""The longest time for which a recorded byte waits here for the trace writer."""
AGAIN: Duration = 250 * NS_PER_MS
"""The delay before a broken connection is opened again."""


class Driver:
    """Performs one part of a plan. The numbers of its connections follow ``first``, which differs
    for each driver. ``offset`` is how far the conductor's clock is ahead of ours."""

    def __init__(
        self, world: RealWorld, plan: Plan, tape: WireLog | None, first: int, offset: Duration = 0
    ) -> None:
        self.world, self.plan = world, plan
        letters = (string.ascii_lowercase * (plan.sizes.high // 26 + 1)).encode()
        self.host = DriverContext(
            world, plan, tape, random.Random(plan.seed), letters, offset=offset, conns=first
        )
        self._senders = {producer.number: ProducerState(producer) for producer in plan.producers}
        make = protocols.line(plan.protocol)
        self.lines: list[ClientConnection] = []
        for number in range(plan.lines):
            senders = [sender for sender in self._senders.values() if sender.about.line == number]
            consumers = [consumer for consumer in plan.consumers if consumer.line == number]
            if senders or consumers:
                self.lines.append(make(self.host, number, senders, consumers))
        self._ended = False

    # phases

    def connect(self, patience: Duration) -> None:
        """Open all connections. Raises :class:`Unreachable` if the broker refuses one."""
        for line in self.lines:
            line.open()
        self.world.wait_until(
            lambda: all(line.up or line.over for line in self.lines), self.world.now() + patience
        )
        for line in self.lines:
            if not line.up:
                why = line.failed or "the broker does not answer"
                raise Unreachable(f"connection {line.number} of the load was not accepted: {why}")
        self._tend()
        if self.host.tape is not None:
            self._hand_over(self.host.tape)

    def produce(self, since: Instant) -> None:
        """Start sending. The first message of the first producer is due at ``since``."""
        self.host.producing = True
        interval = self.plan.interval
        everybody = max(
            1, 1 + max((producer.number for producer in self.plan.producers), default=0)
        )
        for sender in self._senders.values():
            sender.due = since + interval * sender.about.number // everybody
        if interval and self._senders:
            tick = min(max(TICK, interval // len(self._senders)), LONGEST_TICK)
            self._ticking(max(since, self.world.now()), tick)
        for line in self.lines:
            line.pump(self.world.now())
        for fault in self.plan.faults:
            if fault.kind != "restart":
                self._break(since + fault.every, fault)

    def pump(self) -> None:
        """Send more on connections whose producers are limited only by the socket. This is called
        after every event."""
        if self.host.producing and not self.plan.interval and not self.plan.confirmed:
            now = self.world.now()
            for line in self.lines:
                if line.hungry:
                    line.pump(now)

    def stop_producing(self) -> None:
        """Stop all producers. Sent messages are still confirmed and received."""
        self.host.producing = False

    def disconnect(self, patience: Duration) -> None:
        """Disconnect everywhere, and wait for the answers."""
        self._ended = True
        for line in self.lines:
            if line.up:
                line.disconnect()
            elif not line.over:
                line.end()
        self.world.wait_until(
            lambda: all(line.over for line in self.lines), self.world.now() + patience
        )
        for line in self.lines:
            if not line.over:
                self.host.tally.errors["the broker did not answer the close"] += 1
                line.end()
        if self.host.tape is not None:
            self.host.tape.close()

    @property
    def done(self) -> bool:
        """True if every producer has sent all its messages; never true if the number of messages is
        unlimited."""
        return all(0 < sender.about.messages <= sender.next for sender in self._senders.values())

    @property
    def waiting(self) -> int:
        """The number of messages without a confirmation."""
        return sum(sender.waiting for sender in self._senders.values())

    def progress(self) -> dict[str, Any]:
        tally = self.host.tally
        report: dict[str, Any] = {
            "at": self.world.now(),
            "done": self.done,
            "waiting": self.waiting,
            "up": sum(line.up for line in self.lines),
            "held": tally.received - tally.settled if self.plan.ack != "auto" else 0,
            "credit": sum(line.credit for line in self.lines),
            **{
                name: getattr(tally, name)
                for name in (
                    *(
                        "sent",
                        "sent_octets",
                        "confirmed",
                        "refused",
                        "received",
                        "received_octets",
                        "settled",
                    ),
                    *("redelivered", "connections", "left", "sent_until", "received_until"),
                )
            },
            "faults": dict(tally.faults),
            "errors": dict(tally.errors),
        }
        report["delivery"] = {"cells": tally.delivery.counts(), "worst": tally.delivery.worst}
        report["confirmation"] = {
            "cells": tally.confirmation.counts(),
            "worst": tally.confirmation.worst,
        }
        return report

    # background tasks

    def _ticking(self, due: Instant, tick: Duration) -> None:
        if self._ended or not self.host.producing:
            return
        now = self.world.now()
        for line in self.lines:
            line.pump(now)
        self.world.at(max(due + tick, now), lambda: self._ticking(max(due + tick, now), tick))

    def _hand_over(self, tape: WireLog) -> None:
        if self._ended:
            return
        tape.hand_over()
        self.world.at(self.world.now() + HAND_OVER, lambda: self._hand_over(tape))

    def _tend(self) -> None:
        """Keep connections alive, and reopen those that have ended."""
        if self._ended:
            return
        now = self.world.now()
        for line in self.lines:
            if line.over:
                self._reopen(line)
            elif line.silence and now - line.spoken >= line.silence // 2:
                line.beat(now)
        self.world.at(now + AGAIN, self._tend)

    def _reopen(self, line: ClientConnection) -> None:
        try:
            line.open()
        except Unreachable as problem:
            self.host.tally.errors[str(problem)] += 1

    def _break(self, due: Instant, fault: Fault) -> None:
        self.world.at(due, lambda: self._broken(due, fault))

    def _broken(self, due: Instant, fault: Fault) -> None:
        if self._ended or not self.host.producing:
            return
        lines = [line for line in self.lines if line.up and (fault.kind == "cut" or line.consumers)]
        if lines:
            line = self.host.dice.choice(lines)
            if fault.kind == "cut":
                line.cut()
                self._reopen(line)
            else:
                line.stall(fault.lasts)
            self.host.tally.faults[fault.kind] += 1
        self._break(max(due, self.world.now() - NS_PER_S) + fault.every, fault)
