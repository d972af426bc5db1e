"""Faults with what comes back: its place, its mark, its count, and whether it comes back at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from brokerproof.harness.model.enums import AckMode, Outcome
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.message import Entry, Message
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, Reached
from brokerproof.suites.mutation.stomp.acks import AUTO, commanded

redelivery = Group("redelivery")

BACK, MARKED, ORDER = (
    "ARTEMIS-REDELIVERY-back-1",
    "ARTEMIS-REDELIVERY-marked-1",
    "ARTEMIS-GROUPING-fifo-1",
)
UNSETTLED = f"{BACK} STOMP10-SUBSCRIBE-05 STOMP11-ACK-05 STOMP12-ACK-04"


@redelivery.mutant(ORDER)
def at_the_tail(parts: Parts, reached: Reached) -> Parts:
    """What comes back goes behind what waits."""

    class Faulty(Queue):
        def _take_back(self, back: list[Entry]) -> None:
            if back and self._ready:
                reached()
            self._ready.extend(sorted(back, key=attrgetter("order")))

    return replace(parts, queue=Faulty)


@redelivery.mutant(ORDER)
def backwards(parts: Parts, reached: Reached) -> Parts:
    """What comes back is put at the head one by one, the newest last and so first."""

    class Faulty(Queue):
        def _take_back(self, back: list[Entry]) -> None:
            if len(back) > 1:
                reached()
            for entry in sorted(back, key=attrgetter("order")):
                self._ready.appendleft(entry)

    return replace(parts, queue=Faulty)


@redelivery.mutant(ORDER, recreates="ARTEMIS-3093")
def at_the_head_whatever_waits(parts: Parts, reached: Reached) -> Parts:
    """What several consumers give back goes to the head as it comes: a younger message before an
    older one."""

    class Faulty(Queue):
        def _take_back(self, back: list[Entry]) -> None:
            back.sort(key=attrgetter("order"))
            if back and self._ready and self._ready[0].order < back[-1].order:
                reached()
            self._ready.extendleft(reversed(back))

    return replace(parts, queue=Faulty)


@redelivery.mutant(MARKED)
def never_marked(parts: Parts, reached: Reached) -> Parts:
    """What is delivered again does not say so."""

    class Faulty(FrameEncoder):
        def message(self, opening: bytes, message: Message, ack: bytes, redelivered: bool) -> bytes:
            return super().message(opening, message, ack, reached.instead(redelivered, False))

    return replace(parts, encoder=Faulty)


@redelivery.mutant(MARKED)
def always_marked(parts: Parts, reached: Reached) -> Parts:
    """Every message says that it is delivered again."""

    class Faulty(FrameEncoder):
        def message(self, opening: bytes, message: Message, ack: bytes, redelivered: bool) -> bytes:
            return super().message(opening, message, ack, reached.instead(redelivered, True))

    return replace(parts, encoder=Faulty)


@redelivery.mutant(MARKED)
def marked_after_nack_only(parts: Parts, reached: Reached) -> Parts:
    """A message is marked after a NACK, and not after its connection was lost."""

    class Faulty(Subscription):
        def deliver(self, entry: Entry) -> None:
            right = entry.deliveries
            entry.deliveries = reached.instead(right, entry.failures)
            super().deliver(entry)
            entry.deliveries = right + 1

    return replace(parts, subscription=Faulty)


@redelivery.mutant(MARKED)
def marked_false(parts: Parts, reached: Reached) -> Parts:
    """A message that is delivered again says redelivered:false."""

    class Faulty(FrameEncoder):
        def message(self, opening: bytes, message: Message, ack: bytes, redelivered: bool) -> bytes:
            right = super().message(opening, message, ack, redelivered)
            return reached.instead(
                right, right.replace(b"\nredelivered:true\n", b"\nredelivered:false\n", 1)
            )

    return replace(parts, encoder=Faulty)


@redelivery.mutant(f"{UNSETTLED} ARTEMIS-CONCEPTS-queue-1")
def lost_with_the_connection(parts: Parts, reached: Reached) -> Parts:
    """What a lost connection held is lost with it."""

    class Faulty(StompConnection):
        def on_peer_gone(self) -> None:
            for each in self.subscriptions.values():
                held = list(each._unsettled.values())
                if held:
                    reached()
                    for delivery in held:
                        del each._unsettled[delivery.key], each._deliveries[delivery.key]
                    each.queue.settle([delivery.entry for delivery in held], Outcome.ACCEPTED)
            super().on_peer_gone()

    return replace(parts, stomp=Faulty)


@redelivery.mutant(AUTO)
def of_another_subscription(parts: Parts, reached: Reached) -> Parts:
    """In mode auto the first message that another subscription gets behind an UNSUBSCRIBE comes
    twice, as from Artemis 2.56."""

    def unsubscribe(session: StompConnection, frame: Frame) -> After:
        after = parts.commands["UNSUBSCRIBE"](session, frame)
        for each in session.subscriptions.values():
            each.twice = each.mode is AckMode.AUTO  # type: ignore[attr-defined]
        return after

    class Faulty(Subscription):
        twice = False

        def deliver(self, entry: Entry) -> None:
            super().deliver(entry)
            if self.twice and entry.message.large is None:
                reached()
                self.twice = False
                self._put(
                    self._encoder.message(self._opening, entry.message, b"", True), entry.message
                )

    return replace(commanded(parts, UNSUBSCRIBE=unsubscribe), subscription=Faulty)


@redelivery.mutant(BACK)
def lost_with_the_subscription(parts: Parts, reached: Reached) -> Parts:
    """What a subscription held is lost when UNSUBSCRIBE ends it."""

    def unsubscribe(session: StompConnection, frame: Frame) -> After:
        before = {id(each): each for each in session.subscriptions.values()}
        for each in before.values():
            each.queue.settle_released = True  # type: ignore[attr-defined]
        try:
            return parts.commands["UNSUBSCRIBE"](session, frame)
        finally:
            for each in before.values():
                each.queue.settle_released = False  # type: ignore[attr-defined]

    class Faulty(Queue):
        settle_released = False

        def settle(self, entries: Sequence[Entry], outcome: Outcome) -> None:
            if self.settle_released and entries and outcome is Outcome.RELEASED:
                reached()
                outcome = Outcome.ACCEPTED
            super().settle(entries, outcome)

    return replace(commanded(parts, UNSUBSCRIBE=unsubscribe), queue=Faulty)


@redelivery.mutant(BACK)
def only_the_oldest_comes_back(parts: Parts, reached: Reached) -> Parts:
    """Of what a consumer held only the oldest message comes back."""

    class Faulty(Queue):
        def _take_back(self, back: list[Entry]) -> None:
            super()._take_back(reached.instead(back, back[:1]))

    return replace(parts, queue=Faulty)


@redelivery.mutant(BACK)
def given_up_after_two(parts: Parts, reached: Reached) -> Parts:
    """A lost connection counts as a failed delivery, and after two of these a message is given
    up."""

    class Faulty(Queue):
        def settle(self, entries: Sequence[Entry], outcome: Outcome) -> None:
            if outcome is Outcome.RELEASED and any(entry.deliveries >= 2 for entry in entries):
                reached()
                outcome = Outcome.REJECTED
            super().settle(entries, outcome)

    return replace(parts, queue=Faulty)


@redelivery.mutant(f"{BACK} ARTEMIS-CONCEPTS-queue-1")
def not_offered_to_who_waits(parts: Parts, reached: Reached) -> Parts:
    """What comes back waits for the next message or consumer: a consumer that is there already does
    not get it."""

    class Faulty(Queue):
        held_back = False

        def settle(self, entries: Sequence[Entry], outcome: Outcome) -> None:
            super().settle(entries, outcome)
            self.held_back = outcome is Outcome.RELEASED and bool(entries)

        def dispatch(self) -> None:
            if self.held_back:
                self.held_back = False
                if len(self._dispatcher):
                    reached()
                return
            super().dispatch()

    return replace(parts, queue=Faulty)


@redelivery.mutant("ARTEMIS-CONCEPTS-queue-1 ARTEMIS-CONCEPTS-queue-2")
def comes_back_twice(parts: Parts, reached: Reached) -> Parts:
    """What comes back stands in the queue twice."""

    class Faulty(Queue):
        def _take_back(self, back: list[Entry]) -> None:
            twice: list[Any] = [each for entry in back for each in (entry, _copy(entry))]
            super()._take_back(reached.instead(back, twice))

    def _copy(entry: Entry) -> Entry:
        other = Entry(entry.message, entry.order)
        other.deliveries, other.failures = entry.deliveries, entry.failures
        return other

    return replace(parts, queue=Faulty)


@redelivery.mutant(MARKED)
def marked_once(parts: Parts, reached: Reached) -> Parts:
    """A message is marked the first time that it comes again, and not the second."""

    class Faulty(Subscription):
        def deliver(self, entry: Entry) -> None:
            right = entry.deliveries
            entry.deliveries = reached.instead(right, 0 if right > 1 else right)
            super().deliver(entry)
            entry.deliveries = right + 1

    return replace(parts, subscription=Faulty)
