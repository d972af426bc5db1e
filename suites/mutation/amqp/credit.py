"""Faults of AMQP credit: what a receiver gives, how a drain is answered, and what producers get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.kernel.credit import ReceiverCredit, SenderCredit
from brokerproof.reference_broker.kernel.large_body import LargeBody
from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.performatives import Attach, Flow
from brokerproof.reference_broker.protocols.amqp10.producer_credit import ProducerCredit
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.suites.mutation.amqp.frames import with_fields
from brokerproof.suites.mutation.mutant import Group, Reached

amqp_credit = Group("amqp-credit")

FORMULA, START, LOWERS, NONE = (f"AMQP10-CREDIT-{number}" for number in ("03", "04", "05", "09"))
DRAIN, WRAPS, FIRST, TRUE, SOON = (f"AMQP10-CREDIT-{number}" for number in (12, 13, 14, 16, 24))
PRODUCERS = "ARTEMIS-FLOW-amqp-1"


class Loose(SenderCredit):
    """Credit whose attributes a mutant may add to."""

    __slots__ = ("__dict__",)


# --- what a receiver gives ------------------------------------------------------------------------


def _flowing(
    parts: Parts, reached: Reached, wrong: Callable[[SenderCredit, int | None, int], int]
) -> Parts:
    """After a flow the credit is what ``wrong`` makes of the flow's count and credit."""

    class Faulty(SenderCredit):
        def flow(self, count: int | None, credit: int, drain: bool) -> bool:
            instead = wrong(self, count, credit)
            if not super().flow(count, credit, drain):
                return False
            self.credit = reached.instead(self.credit, max(0, instead))
            return True

    return replace(parts, sender_credit=Faulty)


@amqp_credit.mutant(f"{FORMULA} {NONE}")
def one_more(parts: Parts, reached: Reached) -> Parts:
    """One message more is sent than the credit allows."""

    def wrong(link: SenderCredit, count: int | None, credit: int) -> int:
        known = link.first if count is None else count
        return credit - serial_numbers.distance(known, link.count) + (1 if credit else 0)

    return _flowing(parts, reached, wrong)


@amqp_credit.mutant(f"{FORMULA} {LOWERS}")
def one_less(parts: Parts, reached: Reached) -> Parts:
    """One message less is sent than the credit allows."""

    def wrong(link: SenderCredit, count: int | None, credit: int) -> int:
        return (
            credit - serial_numbers.distance(link.first if count is None else count, link.count) - 1
        )

    return _flowing(parts, reached, wrong)


@amqp_credit.mutant(f"{FORMULA} {LOWERS} {NONE}")
def added_up(parts: Parts, reached: Reached) -> Parts:
    """A flow's credit is added to what is left."""
    return _flowing(parts, reached, lambda link, count, credit: link.credit + credit)


@amqp_credit.mutant(f"{FORMULA} {LOWERS} {NONE}")
def never_taken_back(parts: Parts, reached: Reached) -> Parts:
    """A flow with less credit than there is changes nothing."""
    return _flowing(parts, reached, lambda link, count, credit: max(link.credit, credit))


@amqp_credit.mutant(f"{FORMULA} {NONE} {LOWERS}")
def under_way_not_counted(parts: Parts, reached: Reached) -> Parts:
    """The credit of a flow is taken as it is: what was sent since the count it tells does not
    count."""
    return _flowing(parts, reached, lambda link, count, credit: credit)


@amqp_credit.mutant(START)
def without_count_from_now(parts: Parts, reached: Reached) -> Parts:
    """A flow without delivery-count counts from the deliveries sent by then."""

    def wrong(link: SenderCredit, count: int | None, credit: int) -> int:
        return credit - serial_numbers.distance(link.count if count is None else count, link.count)

    return _flowing(parts, reached, wrong)


@amqp_credit.mutant(START)
def without_count_from_zero(parts: Parts, reached: Reached) -> Parts:
    """A flow without delivery-count counts from 0, wherever the delivery-count began."""

    def wrong(link: SenderCredit, count: int | None, credit: int) -> int:
        return credit - serial_numbers.distance(count or 0, link.count)

    return _flowing(parts, reached, wrong)


@amqp_credit.mutant(f"{FORMULA} {WRAPS} {LOWERS} {NONE}")
def senders_count_does_not_wrap(parts: Parts, reached: Reached) -> Parts:
    """Credit is worked out as if the sender's delivery-count went on growing."""

    def wrong(link: SenderCredit, count: int | None, credit: int) -> int:
        return (link.first if count is None else count) + credit - link.count

    return _flowing(parts, reached, wrong)


@amqp_credit.mutant(f"{FORMULA} {NONE} AMQP10-CREDIT-23")
def frames_cost_credit(parts: Parts, reached: Reached) -> Parts:
    """A message in several transfers takes two credits."""

    class Faulty(OutgoingLink):
        def _send(self, id: int, payload: bytes, large: LargeBody | None) -> None:
            super()._send(id, payload, large)
            if (
                len(payload) > self.session.connection.peer_max_frame_size
                and self.credit.credit > 0
            ):
                reached()
                self.credit.credit -= 1

    return replace(parts, outgoing=Faulty)


@amqp_credit.mutant(f"{FIRST} {NONE}")
def one_to_begin_with(parts: Parts, reached: Reached) -> Parts:
    """A new link has a credit of one."""

    class Faulty(SenderCredit):
        def __init__(self, first: int) -> None:
            super().__init__(first)
            self.credit = 1
            reached()

    return replace(parts, sender_credit=Faulty)


@amqp_credit.mutant("AMQP10-CREDIT-25 AMQP10-CREDIT-02 AMQP10-CREDIT-03")
def a_credit_of_none_passed_over(parts: Parts, reached: Reached) -> Parts:
    """A flow that takes all credit back is passed over."""
    return _flowing(parts, reached, lambda link, count, credit: credit if credit else link.credit)


@amqp_credit.mutant(f"{TRUE} {FORMULA} {NONE}")
def deliveries_not_counted(parts: Parts, reached: Reached) -> Parts:
    """The sender's delivery-count stays where it began."""

    class Faulty(SenderCredit):
        def spend(self) -> None:
            reached()
            self.credit -= 1

    return replace(parts, sender_credit=Faulty)


@amqp_credit.mutant("AMQP10-CREDIT-26")
def available_is_one_more(parts: Parts, reached: Reached) -> Parts:
    """What a flow says to be available is one more than there is."""

    class Faulty(OutgoingLink):
        def describe(self, flow: Flow) -> None:
            super().describe(flow)
            flow.available = reached.instead(flow.available, (flow.available or 0) + 1)

    return replace(parts, outgoing=Faulty)


@amqp_credit.mutant("AMQP10-CREDIT-26")
def available_is_what_credit_allows(parts: Parts, reached: Reached) -> Parts:
    """What a flow says to be available is no more than the credit."""

    class Faulty(OutgoingLink):
        def describe(self, flow: Flow) -> None:
            super().describe(flow)
            flow.available = reached.instead(
                flow.available, min(flow.available or 0, self.credit.credit)
            )

    return replace(parts, outgoing=Faulty)


@amqp_credit.mutant("AMQP10-CREDIT-22")
def echo_passed_over(parts: Parts, reached: Reached) -> Parts:
    """A flow that asks for an echo is not answered."""

    class Faulty(Session):
        def _flow(self, flow: Flow) -> None:
            if flow.echo:
                reached()
                flow.echo = False
            super()._flow(flow)

    return replace(parts, session=Faulty)


# --- drain ----------------------------------------------------------------------------------------


@amqp_credit.mutant(f"{DRAIN} {SOON}", recreates="ARTEMIS-46")
def drain_passed_over(parts: Parts, reached: Reached) -> Parts:
    """A drain is not answered when there is nothing to send."""

    class Faulty(OutgoingLink):
        def flow(self, flow: Flow) -> None:
            if flow.drain:
                reached()
                flow.drain = False
            super().flow(flow)

    return replace(parts, outgoing=Faulty)


@amqp_credit.mutant(f"{DRAIN} {TRUE} {SOON}")
def drained_without_counting(parts: Parts, reached: Reached) -> Parts:
    """The answer to a drain takes the credit away and leaves delivery-count where it was."""

    class Faulty(SenderCredit):
        def drained(self) -> None:
            reached()
            self.credit = 0

    return replace(parts, sender_credit=Faulty)


@amqp_credit.mutant(f"{DRAIN} {SOON} {TRUE}")
def drained_one_short(parts: Parts, reached: Reached) -> Parts:
    """The answer to a drain raises delivery-count to one before the limit."""

    class Faulty(SenderCredit):
        def drained(self) -> None:
            reached()
            self.count = serial_numbers.add(self.count, self.credit - 1)
            self.credit = 1

    return replace(parts, sender_credit=Faulty)


@amqp_credit.mutant(f"{SOON} {TRUE} {FORMULA} {NONE}")
def credit_kept_over_a_drain(parts: Parts, reached: Reached) -> Parts:
    """The answer to a drain raises delivery-count, and the credit can be used all the same."""

    class Faulty(Loose):
        kept = 0

        def drained(self) -> None:
            self.kept = self.credit
            super().drained()

        def flow(self, count: int | None, credit: int, drain: bool) -> bool:
            done = super().flow(count, credit, drain)
            if self.kept and not drain:
                reached()
                self.credit += self.kept
                self.kept = 0
            return done

    return replace(parts, sender_credit=Faulty)


@amqp_credit.mutant(f"{DRAIN} {SOON}")
def drained_before_what_waits(parts: Parts, reached: Reached) -> Parts:
    """A drain uses the credit up at once, without sending what waits."""

    class Faulty(OutgoingLink):
        def flow(self, flow: Flow) -> None:
            if flow.drain and flow.link_credit:
                self.credit.flow(flow.delivery_count, flow.link_credit, True)
                if self.queue.available(self):
                    reached()
                self.credit.drained()
                self.session.flow(self)
            else:
                super().flow(flow)

    return replace(parts, outgoing=Faulty)


@amqp_credit.mutant("AMQP10-CREDIT-11")
def drain_not_told(parts: Parts, reached: Reached) -> Parts:
    """The flow that answers a drain has drain off."""

    class Faulty(OutgoingLink):
        def describe(self, flow: Flow) -> None:
            super().describe(flow)
            flow.drain = reached.instead(flow.drain, False)

    return replace(parts, outgoing=Faulty)


# --- what producers get ---------------------------------------------------------------------------


def _refilling(
    parts: Parts, reached: Reached, wrong: Callable[[ProducerCredit, int, int, int], int]
) -> Parts:
    """``wrong`` gets the rule, the credit that is left, the deliveries under way and the right
    refill."""

    class Faulty(ProducerCredit):
        def refill(
            self, credit: ReceiverCredit, unanswered: int, on_room: Callable[[], None]
        ) -> int:
            right = super().refill(credit, unanswered, on_room)
            return reached.instead(right, wrong(self, credit.credit, unanswered, right))

    return replace(parts, producer_credit=Faulty)


@amqp_credit.mutant(PRODUCERS)
def more_than_configured(parts: Parts, reached: Reached) -> Parts:
    """Producers get one credit more than amqpCredits."""
    return _refilling(
        parts, reached, lambda rule, left, under_way, right: right + 1 if right else 0
    )


@amqp_credit.mutant(PRODUCERS, recreates="ARTEMIS-1073")
def not_configurable(parts: Parts, reached: Reached) -> Parts:
    """Producers get 100 credits, and more when 30 are left, whatever is configured."""

    class Faulty(ProducerCredit):
        def __init__(self, most: int, low: int, *more: Any) -> None:
            reached.instead((most, low), (100, 30))
            super().__init__(100, 30, *more)

    return replace(parts, producer_credit=Faulty)


@amqp_credit.mutant(PRODUCERS)
def less_than_configured(parts: Parts, reached: Reached) -> Parts:
    """Producers get one credit less than amqpCredits."""
    return _refilling(
        parts, reached, lambda rule, left, under_way, right: max(1, right - 1) if right else 0
    )


@amqp_credit.mutant(PRODUCERS)
def filled_up_too_early(parts: Parts, reached: Reached) -> Parts:
    """Credit is filled up when one more than amqpLowCredits is left."""

    def wrong(rule: ProducerCredit, left: int, under_way: int, right: int) -> int:
        return right or (
            rule.most - left - under_way if left == rule.low + 1 - under_way and left else 0
        )

    return _refilling(parts, reached, wrong)


@amqp_credit.mutant(PRODUCERS)
def filled_up_too_late(parts: Parts, reached: Reached) -> Parts:
    """Credit is filled up when one less than amqpLowCredits is left."""
    return _refilling(
        parts,
        reached,
        lambda rule, left, under_way, right: (
            right if left <= rule.low - under_way - 1 or not left else 0
        ),
    )


@amqp_credit.mutant(PRODUCERS, recreates="ARTEMIS-2057")
def filled_up_in_full(parts: Parts, reached: Reached) -> Parts:
    """Credit is filled up by amqpCredits, whatever is left."""
    return _refilling(
        parts, reached, lambda rule, left, under_way, right: rule.most if right else 0
    )


@amqp_credit.mutant(PRODUCERS, recreates="ARTEMIS-1898")
def none_after_a_rejection(parts: Parts, reached: Reached) -> Parts:
    """A producer of whose messages one was rejected gets no credit any more."""

    class Faulty(IncomingLink):
        rejected = False

        def _not_taken(self, condition: str, description: str) -> Any:
            self.rejected = True
            return super()._not_taken(condition, description)

        def refill(self) -> None:
            if self.rejected:
                reached()
                return
            super().refill()

    return replace(parts, incoming=Faulty)


@amqp_credit.mutant(f"{PRODUCERS} AMQP10-WIN-05 {WRAPS}")
def filled_up_once(parts: Parts, reached: Reached) -> Parts:
    """A producer gets credit once."""

    class Faulty(ProducerCredit):
        given = False

        def refill(
            self, credit: ReceiverCredit, unanswered: int, on_room: Callable[[], None]
        ) -> int:
            right = super().refill(credit, unanswered, on_room)
            if not right or not self.given:
                self.given = self.given or bool(right)
                return right
            reached()
            return 0

    return replace(parts, producer_credit=Faulty)


@amqp_credit.mutant(f"{PRODUCERS} AMQP10-CREDIT-23 AMQP10-CREDIT-01")
def large_messages_cost_producers_more(parts: Parts, reached: Reached) -> Parts:
    """A message of more than a thousand octets costs a producer two credits."""

    class Faulty(IncomingLink):
        def arrived(self, arrival):  # type: ignore[no-untyped-def]
            if arrival.size > 1000 and self.credit.credit > 0:
                reached()
                self.credit.credit -= 1
                self.session.flow(self)
            return super().arrived(arrival)

    return replace(parts, incoming=Faulty)


@amqp_credit.mutant(f"{WRAPS} AMQP10-CREDIT-17 AMQP10-CREDIT-01")
def producers_count_does_not_wrap(parts: Parts, reached: Reached) -> Parts:
    """A producer's delivery-count stays at 2^32 - 1 when it should run over."""

    class Faulty(ReceiverCredit):
        def spend(self) -> bool:
            before = self.count
            done = super().spend()
            if done and self.count < before:
                reached()
                self.count = before
            return done

    return replace(parts, receiver_credit=Faulty)


@amqp_credit.mutant(f"{WRAPS} AMQP10-CREDIT-17 AMQP10-CREDIT-01")
def producers_count_from_zero(parts: Parts, reached: Reached) -> Parts:
    """A producer's delivery-count is taken for 0 at first, whatever its attach says."""

    class Faulty(ReceiverCredit):
        def __init__(self, count: int) -> None:
            super().__init__(reached.instead(count, 0))

    return replace(parts, receiver_credit=Faulty)


@amqp_credit.mutant("AMQP10-CREDIT-06")
def a_receiver_tells_available(parts: Parts, reached: Reached) -> Parts:
    """The broker's flows as a receiver say that as many are available as there is credit."""

    class Faulty(IncomingLink):
        def describe(self, flow: Flow) -> None:
            super().describe(flow)
            flow.available = reached.instead(flow.available, self.credit.credit)

    return replace(parts, incoming=Faulty)


@amqp_credit.mutant(f"AMQP10-CREDIT-17 {WRAPS}")
def a_receiver_tells_no_count(parts: Parts, reached: Reached) -> Parts:
    """The broker's flows have no delivery-count."""
    return with_fields(parts, reached, Flow, delivery_count=None)


@amqp_credit.mutant("AMQP10-CREDIT-09 AMQP10-CREDIT-03")
def browsers_need_no_credit(parts: Parts, reached: Reached) -> Parts:
    """A link that only looks sees everything with its first credit."""

    class Faulty(OutgoingLink):
        def attach(self, attach: Attach) -> None:
            super().attach(attach)
            self._seen = False

        def has_room(self) -> bool:
            right = super().has_room()
            self._seen = getattr(self, "_seen", False) or right
            if (
                self.copies
                and self._seen
                and not right
                and self.session.can_send()
                and not self._stopped
            ):
                reached()
                return True
            return right

    return replace(parts, outgoing=Faulty)
