"""Faults in making subscriptions and ending them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Frame, Version
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, Reached
from brokerproof.suites.mutation.stomp.acks import commanded

subscriptions = Group("subscriptions")

ENDED = "STOMP10-UNSUBSCRIBE-02 STOMP11-UNSUB-02 STOMP12-UNSUB-03"
NAMED = "STOMP10-UNSUBSCRIBE-01 STOMP11-UNSUB-01 STOMP12-UNSUB-01"


@subscriptions.mutant(ENDED)
def unsubscribe_has_no_effect(parts: Parts, reached: Reached) -> Parts:
    """UNSUBSCRIBE is confirmed and the subscription goes on."""

    def unsubscribe(session: StompConnection, frame: Frame) -> After:
        if any(each.id == frame.get("id") for each in session.subscriptions.values()):
            reached()
            return None
        return parts.commands["UNSUBSCRIBE"](session, frame)

    return commanded(parts, UNSUBSCRIBE=unsubscribe)


@subscriptions.mutant(ENDED, recreates="ARTEMIS-1792")
def one_more_message_behind_the_receipt(parts: Parts, reached: Reached) -> Parts:
    """A message that was on its way comes behind the RECEIPT of UNSUBSCRIBE."""
    last: dict[int, tuple[bytes, str | None]] = {}

    class Faulty(Subscription):
        def deliver(self, entry: Entry) -> None:
            super().deliver(entry)
            last[self._conn] = (
                self._encoder.message(self._opening, entry.message, b"", False),
                self.id,
            )

    def unsubscribe(session: StompConnection, frame: Frame) -> After:
        after = parts.commands["UNSUBSCRIBE"](session, frame)
        late = last.get(session.conn)
        if late is None or late[1] != frame.get("id"):
            return after
        reached()
        return lambda: session.shared.outbox.send(session.conn, late[0])

    return replace(commanded(parts, UNSUBSCRIBE=unsubscribe), subscription=Faulty)


@subscriptions.mutant(ENDED)
def unsubscribe_ends_all(parts: Parts, reached: Reached) -> Parts:
    """UNSUBSCRIBE ends every subscription of the connection."""

    def unsubscribe(session: StompConnection, frame: Frame) -> After:
        after = parts.commands["UNSUBSCRIBE"](session, frame)
        others = list(session.subscriptions.values())
        if others:
            reached()
            session.subscriptions.clear()
            session.release(others)
        return after

    return commanded(parts, UNSUBSCRIBE=unsubscribe)


@subscriptions.mutant("STOMP11-UNSUB-01 STOMP12-UNSUB-02")
def unknown_ids_confirmed(parts: Parts, reached: Reached) -> Parts:
    """UNSUBSCRIBE of a subscription that does not exist is confirmed."""

    def unsubscribe(session: StompConnection, frame: Frame) -> After:
        try:
            return parts.commands["UNSUBSCRIBE"](session, frame)
        except Refusal as problem:
            if problem.message != refusal.UNSUB_UNKNOWN.message:
                raise
            reached()
            return None

    return commanded(parts, UNSUBSCRIBE=unsubscribe)


@subscriptions.mutant(f"{NAMED} STOMP12-FH-05")
def without_id_the_first(parts: Parts, reached: Reached) -> Parts:
    """UNSUBSCRIBE without an id ends the first subscription of the connection."""

    def unsubscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get("id") is None and frame.get("destination") is None and session.subscriptions:
            reached()
            session.release([session.subscriptions.pop(next(iter(session.subscriptions)))])
            return None
        return parts.commands["UNSUBSCRIBE"](session, frame)

    return commanded(parts, UNSUBSCRIBE=unsubscribe)


@subscriptions.mutant("STOMP10-UNSUBSCRIBE-01")
def not_by_destination(parts: Parts, reached: Reached) -> Parts:
    """In 1.0 a subscription cannot be ended by its destination."""

    def unsubscribe(session: StompConnection, frame: Frame) -> After:
        if (
            session.version is Version.V1_0
            and frame.get("id") is None
            and frame.get("destination") is not None
        ):
            reached()
            raise Refusal(refusal.UNSUB_NO_ID, session.version, "give an id")
        return parts.commands["UNSUBSCRIBE"](session, frame)

    return commanded(parts, UNSUBSCRIBE=unsubscribe)


@subscriptions.mutant("STOMP10-SUBSCRIBE-08 STOMP10-UNSUBSCRIBE-01")
def not_by_id_in_1_0(parts: Parts, reached: Reached) -> Parts:
    """In 1.0 the id of a subscription means nothing to UNSUBSCRIBE."""

    def unsubscribe(session: StompConnection, frame: Frame) -> After:
        if (
            session.version is Version.V1_0
            and frame.get("id") is not None
            and frame.get("destination") is None
        ):
            reached()
            raise Refusal(refusal.UNSUB_NO_ID, session.version, "give a destination")
        return parts.commands["UNSUBSCRIBE"](session, frame)

    return commanded(parts, UNSUBSCRIBE=unsubscribe)


@subscriptions.mutant("STOMP11-UNSUB-02 STOMP12-UNSUB-03")
def one_consumer_per_queue_and_connection(parts: Parts, reached: Reached) -> Parts:
    """Of two subscriptions of a connection to one queue the end of one ends both."""

    def unsubscribe(session: StompConnection, frame: Frame) -> After:
        ended = next(
            (each for each in session.subscriptions.values() if each.id == frame.get("id")), None
        )
        after = parts.commands["UNSUBSCRIBE"](session, frame)
        if ended is not None:
            twins = [
                key for key, each in session.subscriptions.items() if each.queue is ended.queue
            ]
            if twins:
                reached()
                session.release([session.subscriptions.pop(key) for key in twins])
        return after

    return commanded(parts, UNSUBSCRIBE=unsubscribe)


@subscriptions.mutant("STOMP10-SUBSCRIBE-02 STOMP11-SUB-02 STOMP12-SUB-02")
def not_its_own_messages(parts: Parts, reached: Reached) -> Parts:
    """A connection does not get what it sent itself."""
    senders: dict[int, int] = {}

    class Faulty(Subscription):
        def deliver(self, entry: Entry) -> None:
            if senders.get(entry.message.number) == self._conn:
                reached()
                return
            super().deliver(entry)

    def send(session: StompConnection, frame: Frame) -> After:
        senders[session.shared.router._messages + 1] = session.conn
        return parts.commands["SEND"](session, frame)

    return replace(commanded(parts, SEND=send), subscription=Faulty)


@subscriptions.mutant(
    "STOMP10-SUBSCRIBE-02 STOMP11-SUB-02 STOMP12-SUB-02 STOMP11-SUB-07 STOMP12-SUB-08"
)
def auto_stops_after_a_hundred(parts: Parts, reached: Reached) -> Parts:
    """An auto subscription gets a hundred messages and no more."""

    class Faulty(Subscription):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.sent = 0
            room = self.has_room
            if self.mode.name == "AUTO":
                self.has_room = lambda: room() and self.sent < 100

        def pause_delivery(self, paused: bool) -> None:
            if self.mode.name != "AUTO":
                super().pause_delivery(paused)

        def deliver(self, entry: Entry) -> None:
            self.sent += 1
            if self.sent == 100 and self.mode.name == "AUTO":
                reached()
            super().deliver(entry)

    return replace(parts, subscription=Faulty)
