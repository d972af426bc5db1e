"""Faults of acknowledgement: which messages an ACK settles, and how it names them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from brokerproof.harness.model.enums import AckMode, Outcome
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Frame, Version
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.reference_broker.protocols.stomp.subscription import Delivery, Subscription
from brokerproof.suites.mutation.mutant import Group, Reached, rewritten

acks = Group("acks")

CUMULATIVE = "STOMP11-SUB-10 STOMP12-SUB-11"
INDIVIDUAL = "STOMP11-SUB-11 STOMP12-SUB-13"
UNTIL_THEN = "STOMP11-ACK-05 STOMP12-ACK-04"
NAMED = "STOMP10-ACK-01 STOMP11-ACK-01 STOMP12-ACK-01"
AUTO = "STOMP10-SUBSCRIBE-03 STOMP11-SUB-07 STOMP12-SUB-08"


def commanded(parts: Parts, **handlers: Any) -> Parts:
    """``parts`` with other handlers for some commands."""
    return replace(parts, commands={**parts.commands, **handlers})


def as_mode(parts: Parts, reached: Reached, asked: tuple[str | None, ...], got: str) -> Parts:
    """A SUBSCRIBE that asks for one of the modes ``asked`` (None: for none) gets ``got``."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get("ack") in asked:
            reached()
            rest = tuple(each for each in frame.head.headers if each[0] != "ack")
            frame = rewritten(frame, (*rest, ("ack", got)))
        return parts.commands["SUBSCRIBE"](session, frame)

    return commanded(parts, SUBSCRIBE=subscribe)


@acks.mutant(CUMULATIVE)
def client_is_individual(parts: Parts, reached: Reached) -> Parts:
    """In mode client an ACK settles only the message that it names."""

    class Faulty(Subscription):
        def take(self, delivery: Delivery) -> list[Entry]:
            if next(iter(self._unsettled.values())) is not delivery and self.mode is AckMode.CLIENT:
                reached()
            mode, self.mode = self.mode, AckMode.CLIENT_INDIVIDUAL
            taken = super().take(delivery)
            self.mode = mode
            return taken

    return replace(parts, subscription=Faulty)


@acks.mutant(INDIVIDUAL)
def individual_is_cumulative(parts: Parts, reached: Reached) -> Parts:
    """In mode client-individual an ACK settles all earlier messages too."""

    class Faulty(Subscription):
        def take(self, delivery: Delivery) -> list[Entry]:
            if (
                next(iter(self._unsettled.values())) is not delivery
                and self.mode is AckMode.CLIENT_INDIVIDUAL
            ):
                reached()
            mode, self.mode = self.mode, AckMode.CLIENT
            taken = super().take(delivery)
            self.mode = mode
            return taken

    return replace(parts, subscription=Faulty)


@acks.mutant(UNTIL_THEN)
def cumulative_covers_later_ones(parts: Parts, reached: Reached) -> Parts:
    """In mode client an ACK settles everything that was sent, later messages too."""

    class Faulty(Subscription):
        def take(self, delivery: Delivery) -> list[Entry]:
            last = next(reversed(self._unsettled.values()))
            return super().take(
                reached.instead(delivery, last) if self.mode is AckMode.CLIENT else delivery
            )

    return replace(parts, subscription=Faulty)


@acks.mutant(f"{CUMULATIVE} ARTEMIS-CONCEPTS-queue-2")
def cumulative_stops_short(parts: Parts, reached: Reached) -> Parts:
    """In mode client an ACK settles all earlier messages and not the one that it names."""

    class Faulty(Subscription):
        def take(self, delivery: Delivery) -> list[Entry]:
            earlier = None
            for each in self._unsettled.values():
                if each is delivery:
                    break
                earlier = each
            if self.mode is not AckMode.CLIENT or earlier is None:
                return super().take(delivery)
            reached()
            return super().take(earlier)

    return replace(parts, subscription=Faulty)


@acks.mutant(UNTIL_THEN)
def cumulative_covers_all_subscriptions(parts: Parts, reached: Reached) -> Parts:
    """In mode client an ACK settles what all subscriptions of the connection hold."""

    def ack(session: StompConnection, frame: Frame) -> After:
        after = parts.commands["ACK"](session, frame)
        for each in session.subscriptions.values():
            held = list(each._unsettled.values())
            if held and each.mode is AckMode.CLIENT and len(session.subscriptions) > 1:
                reached()
                each.queue.settle(each.take(held[-1]), Outcome.ACCEPTED)
        return after

    return commanded(parts, ACK=ack)


@acks.mutant(f"{NAMED} ARTEMIS-CONCEPTS-queue-2")
def ack_has_no_effect(parts: Parts, reached: Reached) -> Parts:
    """ACK is confirmed and settles nothing."""

    def ack(session: StompConnection, frame: Frame) -> After:
        reached()
        return None

    return commanded(parts, ACK=ack)


@acks.mutant(f"{NAMED} ARTEMIS-CONCEPTS-queue-2")
def acknowledged_comes_back(parts: Parts, reached: Reached) -> Parts:
    """A message that was acknowledged is put back into its queue when its connection is lost."""
    settled: dict[int, list[tuple[Queue, list[Entry]]]] = {}

    class Faulty(Subscription):
        def take(self, delivery: Delivery) -> list[Entry]:
            taken = super().take(delivery)
            settled.setdefault(self._conn, []).append((self.queue, taken))
            return taken

    class Connection(StompConnection):
        def on_peer_gone(self) -> None:
            for queue, entries in settled.pop(self.conn, []):
                reached()
                queue.unsettled += len(entries)
                queue.settle(entries, Outcome.RELEASED)
            super().on_peer_gone()

    return replace(parts, subscription=Faulty, stomp=Connection)


@acks.mutant("STOMP12-ACK-01 STOMP12-FH-06", recreates="rabbitmq-server#16206")
def names_of_1_1_in_1_2(parts: Parts, reached: Reached) -> Parts:
    """In 1.2 an ACK or NACK with nothing but its id is refused: message-id and subscription are
    asked for."""

    def demanding(command: str) -> Any:
        def handler(session: StompConnection, frame: Frame) -> After:
            if session.version is Version.V1_2 and frame.get("message-id") is None:
                reached()
                raise Refusal(
                    refusal.ACK_UNKNOWN,
                    session.version,
                    f"{command} needs message-id and subscription",
                )
            return parts.commands[command](session, frame)

        return handler

    return commanded(parts, ACK=demanding("ACK"), NACK=demanding("NACK"))


@acks.mutant(NAMED)
def nameless_acks_confirmed(parts: Parts, reached: Reached) -> Parts:
    """An ACK that names no message is confirmed, and settles nothing."""

    def ack(session: StompConnection, frame: Frame) -> After:
        if frame.get("id" if session.version is Version.V1_2 else "message-id") is None:
            reached()
            return None
        return parts.commands["ACK"](session, frame)

    return commanded(parts, ACK=ack)


@acks.mutant(NAMED)
def nameless_acks_settle_the_oldest(parts: Parts, reached: Reached) -> Parts:
    """An ACK that names no message settles the oldest one."""

    def ack(session: StompConnection, frame: Frame) -> After:
        name = "id" if session.version is Version.V1_2 else "message-id"
        if frame.get(name) is None and session.deliveries:
            reached()
            key, delivery = next(iter(session.deliveries.items()))
            named = ((name, key), ("subscription", delivery.subscription.id or ""))
            frame = rewritten(frame, (*named, *frame.head.headers))
        return parts.commands["ACK"](session, frame)

    return commanded(parts, ACK=ack)


@acks.mutant("STOMP11-ACK-02")
def subscription_not_needed(parts: Parts, reached: Reached) -> Parts:
    """In 1.1 an ACK without the header subscription is accepted."""

    def ack(session: StompConnection, frame: Frame) -> After:
        key = frame.get("message-id") or ""
        if (
            session.version is Version.V1_1
            and frame.get("subscription") is None
            and key in session.deliveries
        ):
            reached()
            name = session.deliveries[key].subscription.id or ""
            frame = rewritten(frame, (*frame.head.headers, ("subscription", name)))
        return parts.commands["ACK"](session, frame)

    return commanded(parts, ACK=ack)


@acks.mutant(f"{AUTO} ARTEMIS-CONCEPTS-queue-2")
def auto_waits_for_acks(parts: Parts, reached: Reached) -> Parts:
    """Messages of an auto subscription are kept, and given to the next consumer when their
    connection ends."""
    return as_mode(parts, reached, (None, "auto"), "client")


@acks.mutant(f"STOMP10-SUBSCRIBE-05 {UNTIL_THEN}")
def client_is_auto(parts: Parts, reached: Reached) -> Parts:
    """In mode client messages count as consumed when they are sent."""

    class Faulty(Subscription):
        def leave(self) -> list[Entry]:
            left = super().leave()
            if self.mode is AckMode.CLIENT and left:
                reached()
                self.queue.settle(left, Outcome.ACCEPTED)
                return []
            return left

    return replace(parts, subscription=Faulty)


@acks.mutant(UNTIL_THEN)
def individual_is_auto(parts: Parts, reached: Reached) -> Parts:
    """In mode client-individual messages count as consumed when they are sent."""

    class Faulty(Subscription):
        def leave(self) -> list[Entry]:
            left = super().leave()
            if self.mode is AckMode.CLIENT_INDIVIDUAL and left:
                reached()
                self.queue.settle(left, Outcome.ACCEPTED)
                return []
            return left

    return replace(parts, subscription=Faulty)


@acks.mutant("STOMP10-SUBSCRIBE-03 STOMP11-SUB-06 STOMP11-SUB-07 STOMP12-SUB-07 STOMP12-SUB-08")
def client_by_default(parts: Parts, reached: Reached) -> Parts:
    """A SUBSCRIBE without the header ack gets the mode client."""
    return as_mode(parts, reached, (None,), "client")


@acks.mutant("STOMP10-SUBSCRIBE-04 STOMP11-SUB-06 STOMP11-SUB-03 STOMP12-SUB-07 STOMP12-SUB-03")
def unknown_modes_are_auto(parts: Parts, reached: Reached) -> Parts:
    """A mode that does not exist is taken for auto."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get("ack") not in (None, "auto", "client", "client-individual"):
            reached()
            frame = rewritten(frame, tuple(each for each in frame.head.headers if each[0] != "ack"))
        return parts.commands["SUBSCRIBE"](session, frame)

    return commanded(parts, SUBSCRIBE=subscribe)


@acks.mutant("STOMP10-SUBSCRIBE-04 STOMP11-SUB-06 STOMP11-SUB-03 STOMP12-SUB-07 STOMP12-SUB-03")
def modes_in_any_case(parts: Parts, reached: Reached) -> Parts:
    """Modes are understood in capitals too."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        mode = frame.get("ack")
        if mode is not None and mode != mode.lower():
            reached()
            rest = tuple(each for each in frame.head.headers if each[0] != "ack")
            frame = rewritten(frame, (*rest, ("ack", mode.lower())))
        return parts.commands["SUBSCRIBE"](session, frame)

    return commanded(parts, SUBSCRIBE=subscribe)


@acks.mutant(f"{NAMED} {CUMULATIVE} {INDIVIDUAL}")
def names_forgotten(parts: Parts, reached: Reached) -> Parts:
    """A connection remembers the last ten unsettled messages; an ACK for an older one is
    refused."""

    class Faulty(Subscription):
        def deliver(self, entry: Entry) -> None:
            super().deliver(entry)
            if self.mode is not AckMode.AUTO and len(self._unsettled) > 10:
                reached()

    def ack(session: StompConnection, frame: Frame) -> After:
        key = frame.get("id" if session.version is Version.V1_2 else "message-id")
        delivery = session.deliveries.get(key or "")
        if delivery is not None and key not in list(delivery.subscription._unsettled)[-10:]:
            raise Refusal(refusal.ACK_UNKNOWN, session.version, "that was long ago")
        return parts.commands["ACK"](session, frame)

    return replace(commanded(parts, ACK=ack), subscription=Faulty)
