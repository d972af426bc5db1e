"""Faults of MESSAGE: what its headers say and what they leave out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from brokerproof.harness.model.enums import AckMode
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.message import Entry, Envelope, Message
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, Reached
from brokerproof.suites.mutation.stomp.acks import commanded

message_headers = Group("message-headers")

DESTINATION = "STOMP10-MESSAGE-01 STOMP11-MSG-01 STOMP12-MSG-01"
ID = "STOMP10-MESSAGE-02 STOMP11-MSG-02 STOMP12-MSG-03"
SUBSCRIPTION = "STOMP10-SUBSCRIBE-09 STOMP11-MSG-03 STOMP12-MSG-04"
LENGTH = "STOMP10-MESSAGE-03 STOMP11-MSG-04 STOMP12-MSG-06 STOMP11-HDR-01 STOMP12-HDR-05"
USERS = "STOMP11-SEND-06 STOMP12-SEND-06 STOMP11-MSG-06 STOMP12-MSG-08 STOMP12-FH-13"


def _rewritten(parts: Parts, reached: Reached, pattern: bytes, instead: bytes) -> Parts:
    """MESSAGE frames in which the first match of ``pattern`` in the headers is replaced."""
    found = re.compile(pattern)

    class Faulty(FrameEncoder):
        def message(self, opening: bytes, message: Message, ack: bytes, redelivered: bool) -> bytes:
            right = super().message(opening, message, ack, redelivered)
            head, end, body = right.partition(b"\n\n")
            return reached.instead(right, found.sub(instead, head, count=1) + end + body)

    return replace(parts, encoder=Faulty)


@message_headers.mutant(f"{DESTINATION} STOMP12-FH-09")
def no_destination(parts: Parts, reached: Reached) -> Parts:
    """MESSAGE has no destination."""
    return _rewritten(parts, reached, rb"\ndestination:[^\n]*", b"")


@message_headers.mutant("STOMP12-MSG-02")
def destination_in_small_letters(parts: Parts, reached: Reached) -> Parts:
    """The destination of MESSAGE is not letter for letter that of SEND: it is turned into small
    letters."""

    class Faulty(FrameEncoder):
        def _headers(self, envelope: Envelope) -> bytes:
            right = super()._headers(envelope)
            line = self.header("destination", envelope.destination)
            return reached.instead(right, line.lower() + right[len(line) :])

    return replace(parts, encoder=Faulty)


@message_headers.mutant("STOMP12-MSG-02")
def destination_without_prefix(parts: Parts, reached: Reached) -> Parts:
    """The destination of MESSAGE is the broker's address, without the prefix that the sender
    wrote."""

    class Faulty(FrameEncoder):
        def _headers(self, envelope: Envelope) -> bytes:
            right = super()._headers(envelope)
            line = self.header("destination", envelope.destination)
            return reached.instead(
                right, self.header("destination", envelope.address) + right[len(line) :]
            )

    return replace(parts, encoder=Faulty)


@message_headers.mutant(f"{ID} STOMP12-FH-09")
def no_message_id(parts: Parts, reached: Reached) -> Parts:
    """MESSAGE has no message-id."""
    return _rewritten(parts, reached, rb"\nmessage-id:[^\n]*", b"")


@message_headers.mutant(ID)
def same_message_id(parts: Parts, reached: Reached) -> Parts:
    """Every MESSAGE of a subscription has the same message-id."""

    class Faulty(FrameEncoder):
        def message(self, opening: bytes, message: Message, ack: bytes, redelivered: bool) -> bytes:
            right = super().message(opening, message, ack, redelivered)
            number = b"%010d" % message.number
            return reached.instead(right, right.replace(number, b"0" * 10, 1))

    return replace(parts, encoder=Faulty)


@message_headers.mutant(
    "STOMP11-ACK-01 STOMP11-ACK-02 STOMP12-ACK-01 STOMP12-MSG-05", recreates="ARTEMIS-4649"
)
def message_id_shared_by_subscriptions(parts: Parts, reached: Reached) -> Parts:
    """Message-id and ack name a message and not its delivery: two subscriptions of a connection get
    the same."""

    class Faulty(Subscription):
        def __init__(self, conn: int, number: int, *args: Any) -> None:
            super().__init__(conn, 0, *args)

        def deliver(self, entry: Entry) -> None:
            self._delivered = entry.message.number - 1
            before = len(self._deliveries)
            super().deliver(entry)
            if self.mode is not AckMode.AUTO and len(self._deliveries) == before:
                reached()

        def leave(self) -> list[Entry]:
            for key in self._unsettled:
                self._deliveries.setdefault(key, self._unsettled[key])
            return super().leave()

    return replace(parts, subscription=Faulty)


@message_headers.mutant(ID, recreates="AMQ-2817")
def message_id_of_the_sender(parts: Parts, reached: Reached) -> Parts:
    """A message-id that the sender wrote into SEND comes out in MESSAGE in place of the
    broker's."""
    written: dict[int, str] = {}

    class Faulty(FrameEncoder):
        def message(self, opening: bytes, message: Message, ack: bytes, redelivered: bool) -> bytes:
            right = super().message(opening, message, ack, redelivered)
            theirs = written.get(message.number)
            if theirs is None:
                return right
            line = self.header("message-id", theirs)
            return reached.instead(right, right.replace(b"MESSAGE\n", b"MESSAGE\n" + line, 1))

    def send(session: StompConnection, frame: Frame) -> After:
        theirs = frame.get("message-id")
        if theirs is not None:
            written[session.shared.router._messages + 1] = theirs
        return parts.commands["SEND"](session, frame)

    return replace(commanded(parts, SEND=send), encoder=Faulty)


@message_headers.mutant(f"{SUBSCRIPTION} STOMP12-FH-09")
def no_subscription(parts: Parts, reached: Reached) -> Parts:
    """MESSAGE does not say which subscription it comes by."""
    return _rewritten(parts, reached, rb"\nsubscription:[^\n]*", b"")


@message_headers.mutant(SUBSCRIPTION)
def subscription_of_the_first(parts: Parts, reached: Reached) -> Parts:
    """Every MESSAGE of a connection carries the id of the connection's first subscription."""

    class Faulty(FrameEncoder):
        first: str | None = None

        def opening(self, consumer: int, subscription: str | None) -> bytes:
            if self.first is None:
                self.first = subscription
            return super().opening(consumer, reached.instead(subscription, self.first))

    return replace(parts, encoder=Faulty)


@message_headers.mutant("STOMP12-MSG-05")
def no_ack(parts: Parts, reached: Reached) -> Parts:
    """MESSAGE has no header ack in the modes that need one."""
    return _rewritten(parts, reached, rb"\nack:[^\n]*", b"")


@message_headers.mutant(f"{LENGTH} STOMP11-HDR-02 STOMP12-HDR-06")
def no_length(parts: Parts, reached: Reached) -> Parts:
    """MESSAGE has no content-length, not even for a body with NULs."""
    return _rewritten(parts, reached, rb"\ncontent-length:[^\n]*", b"")


@message_headers.mutant("STOMP10-MESSAGE-03", recreates="ARTEMIS-234")
def no_length_in_1_0(parts: Parts, reached: Reached) -> Parts:
    """MESSAGE to a 1.0 client has no content-length although its SEND had one."""

    class Faulty(FrameEncoder):
        def message(self, opening: bytes, message: Message, ack: bytes, redelivered: bool) -> bytes:
            right = super().message(opening, message, ack, redelivered)
            if self._length_always:
                return right
            return reached.instead(
                right, re.sub(rb"\ncontent-length:[^\n]*(?=\n\n)", b"", right, count=1)
            )

    return replace(parts, encoder=Faulty)


@message_headers.mutant(
    f"{LENGTH} STOMP11-HDR-02 STOMP12-HDR-06 STOMP11-HDR-03 STOMP12-HDR-03 STOMP10-SEND-05"
)
def length_in_characters(parts: Parts, reached: Reached) -> Parts:
    """The content-length of MESSAGE counts characters instead of octets."""

    class Faulty(FrameEncoder):
        def message(self, opening: bytes, message: Message, ack: bytes, redelivered: bool) -> bytes:
            right = super().message(opening, message, ack, redelivered)
            characters = len(message.body.decode(errors="replace"))
            line = b"content-length:%d\n\n"
            return reached.instead(
                right, right.replace(line % len(message.body), line % characters, 1)
            )

    return replace(parts, encoder=Faulty)


@message_headers.mutant(
    f"STOMP11-MSG-05 STOMP12-MSG-07 STOMP11-HDR-05 STOMP12-HDR-07 {USERS}", recreates="ARTEMIS-230"
)
def content_type_lost(parts: Parts, reached: Reached) -> Parts:
    """The content-type of SEND does not come out in MESSAGE."""
    return _rewritten(parts, reached, rb"\ncontent-type:[^\n]*", b"")


def _dropping(parts: Parts, reached: Reached, drop: object) -> Parts:
    class Faulty(FrameEncoder):
        def _headers(self, envelope: Envelope) -> bytes:
            right = super()._headers(envelope)
            kept = [each for number, each in enumerate(envelope.headers) if not drop(number, *each)]  # type: ignore[operator]
            lines = [self.header("destination", envelope.destination)]
            return reached.instead(
                right, b"".join([*lines, *(self.header(*each) for each in kept)])
            )

    return replace(parts, encoder=Faulty)


@message_headers.mutant(f"{USERS} STOMP10-FRAME-02 STOMP10-FRAME-03 STOMP12-REPEAT-02")
def users_headers_dropped(parts: Parts, reached: Reached) -> Parts:
    """No header of the application comes out in MESSAGE."""
    return _dropping(parts, reached, lambda number, name, value: name.startswith("x"))


@message_headers.mutant(f"{USERS} STOMP10-FRAME-02 STOMP10-FRAME-03")
def only_ten_headers(parts: Parts, reached: Reached) -> Parts:
    """At most ten headers of a SEND come out in MESSAGE."""
    return _dropping(parts, reached, lambda number, name, value: number >= 10)


@message_headers.mutant(f"{USERS} STOMP11-FRAME-03 STOMP12-FRAME-05")
def empty_headers_dropped(parts: Parts, reached: Reached) -> Parts:
    """Headers without a value do not come out in MESSAGE."""
    return _dropping(parts, reached, lambda number, name, value: not value)


@message_headers.mutant("STOMP12-REPEAT-02")
def repeated_headers_turned_round(parts: Parts, reached: Reached) -> Parts:
    """Repeated headers come out in reverse, so that the last entry becomes the first."""

    class Faulty(FrameEncoder):
        def _headers(self, envelope: Envelope) -> bytes:
            right = super()._headers(envelope)
            lines = [self.header("destination", envelope.destination)]
            lines += [self.header(*each) for each in reversed(envelope.headers)]
            wrong = b"".join(lines)
            return (
                reached.instead(right, wrong)
                if len(dict(envelope.headers)) < len(envelope.headers)
                else right
            )

    return replace(parts, encoder=Faulty)


@message_headers.mutant(f"{USERS} STOMP10-FRAME-03")
def numbers_normalised(parts: Parts, reached: Reached) -> Parts:
    """A header value that looks like a number is read as one and written anew: 007 becomes 7."""

    class Faulty(FrameEncoder):
        def header(self, name: str, value: str) -> bytes:
            right = super().header(name, value)
            if not (name.startswith("x") and value.isascii() and value.isdigit()):
                return right
            return reached.instead(right, super().header(name, str(int(value))))

    return replace(parts, encoder=Faulty)


@message_headers.mutant("STOMP10-FRAME-02 STOMP11-FRAME-03 STOMP12-FRAME-04")
def a_header_without_name(parts: Parts, reached: Reached) -> Parts:
    """MESSAGE has a header line that begins with its colon."""
    return _rewritten(parts, reached, rb"\ndestination:", b"\n:extra\ndestination:")


@message_headers.mutant(ID)
def message_ids_come_again(parts: Parts, reached: Reached) -> Parts:
    """The numbers in message-ids come again after sixteen messages."""

    class Faulty(FrameEncoder):
        def message(self, opening: bytes, message: Message, ack: bytes, redelivered: bool) -> bytes:
            right = super().message(opening, message, ack, redelivered)
            again = b"%010d" % (message.number % 16)
            return (
                reached.instead(right, right.replace(b"%010d" % message.number, again, 1))
                if b"ack:" in ack
                else right
            )

    return replace(parts, encoder=Faulty)
