"""Boundary values of every number that STOMP or a vendor documents for a client's header.

All brokers get the headers of all vendors: to a broker that does not know it, such a header is the
application's and changes nothing. Each value is tried on its own connection, in a whole
conversation: CONNECT, SUBSCRIBE, SEND, the message, ACK, DISCONNECT.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from brokerproof.suites.api import PATIENCE, Bench, Match, case, either
from brokerproof.suites.api.stomp import CONNECTED, ERROR, MESSAGE, Frame, StompPeer, frame
from brokerproof.suites.steps.boundaries import ANY, NumberField, Outcome, Replaced, over_boundaries
from brokerproof.suites.steps.refusals import QUIET, bystander

ADMITTED = "STOMP12-CONNECT-01"
TURNED_AWAY = "STOMP12-CONNECT-03"
ANSWERED = "STOMP12-HDR-17"
DELIVERED = "STOMP12-SUB-02"
SEND_REFUSED = "STOMP12-SEND-07"
SUBSCRIBE_REFUSED = "STOMP12-SUB-03"
NEGATIVE_LIMIT = "STOMP12-READING-LIMIT-01"

FIRST_BEAT, SECOND_BEAT = "first of heart-beat", "second of heart-beat"
CONNECT_NUMBERS = (FIRST_BEAT, SECOND_BEAT)
SEND_NUMBERS = (
    "content-length",
    "expires",  # Artemis, ActiveMQ: milliseconds since 1970
    "priority",
    "timestamp",
    "JMSXGroupSeq",
    "AMQ_SCHEDULED_DELAY",  # ActiveMQ, Artemis: milliseconds
    "expiration",  # RabbitMQ: milliseconds to live
)
SUBSCRIBE_NUMBERS = (
    "consumer-window-size",  # Artemis: bytes
    "activemq.prefetchSize",  # ActiveMQ: messages; Artemis: bytes
    "activemq.maximumPendingMessageLimit",
    "activemq.priority",
    "prefetch-count",  # RabbitMQ: messages
    "x-priority",
    "x-message-ttl",  # RabbitMQ: milliseconds, for the queue that SUBSCRIBE creates
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
)
LIMITS = ("consumer-window-size", "activemq.prefetchSize", "prefetch-count")
BODY = b"a body"
LARGEST_MESSAGE = 1000
"""Larger than any message of these conversations."""
SOON_MS = 2**15 - 1
"""A message with this lifetime has not expired if it is consumed immediately."""
FAR_MS = 2**53 - 1
"""A time in the future for any broker's clock."""


def silence_is_right(replaced: Replaced) -> bool:
    """True if some vendor gives this number a meaning by which no message needs to arrive."""
    value = replaced.value
    match replaced.field.name:
        case "content-length":
            return value > len(BODY)  # the broker waits for the rest of the frame
        case "expires":
            return value != 0 and value < FAR_MS
        case "AMQ_SCHEDULED_DELAY":
            return value > 0
        case "expiration" | "x-message-ttl" | "x-expires":
            return value < SOON_MS
        case "activemq.prefetchSize":
            return value == 0  # messages are pulled
        case "x-max-length" | "x-max-length-bytes":
            return value < LARGEST_MESSAGE
    return False


def close_is_right(replaced: Replaced) -> bool:
    """True if the client announces heartbeats so often that it may be disconnected."""
    return replaced.field.name == FIRST_BEAT and 0 < replaced.value < SOON_MS


class Conversation:
    """One connection and its conversation, up to the first unusual answer."""

    def __init__(self, target: Bench, replaced: Replaced, *, usual: bool = False) -> None:
        self.replaced, self.usual = replaced, usual
        self.patience = QUIET if silence_is_right(replaced) else PATIENCE
        self.target = target
        self.peer: StompPeer = target.peer()
        self.outcome = Outcome.WORKED
        self.stage = "CONNECT"

    def play(self) -> None:
        """Play to the end, or until an answer is unusual."""
        queue = self.target.destination()
        subscribe = {"id": "0", "destination": queue.name, "ack": "client-individual"}
        send = {"destination": queue.name, "content-length": str(len(BODY))}
        _ = (
            self._connects()
            and self._asks("SUBSCRIBE", subscribe, queue.subscribe_headers)
            and self._asks("SEND", send, queue.send_headers, BODY)
            and self._gets(MESSAGE, "MESSAGE")
            and self._asks("DISCONNECT", {}, ())
        )
        self.peer.close_socket()

    def _fields(self, command: str, right: dict[str, Any]) -> dict[str, Any]:
        return right if self.usual else self.replaced.inside(command, right)

    @property
    def detail(self) -> str:
        """Return how the conversation went, as a phrase."""
        due = "a MESSAGE" if self.stage == "MESSAGE" else f"the answer to {self.stage}"
        words = f"{self.words} while the client waited for {due}"
        return f"{self.replaced}: {self.outcome if self.outcome is Outcome.WORKED else words}"

    def _connects(self) -> bool:
        if not self._connected(self.peer):
            return False
        if self.replaced.field.frame == "CONNECT":
            # The same session, idle: if the number affects a timer, this shows only later.
            self._connected(self.target.peer())
        return True

    def _connected(self, peer: StompPeer) -> bool:
        numbers = [
            str(self._fields("CONNECT", dict.fromkeys(CONNECT_NUMBERS, 0))[name])
            for name in CONNECT_NUMBERS
        ]
        extra = {"heart-beat": ",".join(numbers)} if self.replaced.field.frame == "CONNECT" else {}
        peer.send("CONNECT", self.target.connect_headers("1.2", extra))
        if peer is self.peer:
            return self._gets(CONNECTED, "CONNECT")
        return peer.watch_for(CONNECTED, within=self.patience) is not None

    def _asks(
        self,
        command: str,
        right: dict[str, str],
        more: Iterable[tuple[str, str]],
        body: bytes = b"",
    ) -> bool:
        receipt = self.peer.next_receipt()
        headers = {**self._fields(command, dict(right)), **dict(more), "receipt": receipt}
        texts = {name: str(value) for name, value in headers.items()}
        self.peer.send(command, texts, body)
        return self._gets(frame("RECEIPT", {"receipt-id": receipt}), command)

    def _gets(self, answer: Match[Frame], stage: str) -> bool:
        self.stage = stage
        reply = self.peer.watch_for(either(answer, ERROR), within=self.patience)
        self.words = self.peer.instead() if reply is None else f"got {reply.brief()}"
        if reply is not None and answer.accepts(reply):
            return True
        if reply is not None:
            self.outcome = Outcome.REFUSED
        elif self.peer.ended is not None and not close_is_right(self.replaced):
            self.outcome = Outcome.CUT
        elif self.peer.ended is None and not silence_is_right(self.replaced):
            self.outcome = Outcome.SILENT
        return False


STAGES = {
    ("CONNECT", Outcome.CUT): TURNED_AWAY,
    ("CONNECT", Outcome.SILENT): ADMITTED,
    ("SUBSCRIBE", Outcome.CUT): SUBSCRIBE_REFUSED,
    ("SUBSCRIBE", Outcome.SILENT): SUBSCRIBE_REFUSED,
    ("SEND", Outcome.CUT): SEND_REFUSED,
    ("SEND", Outcome.SILENT): SEND_REFUSED,
    ("MESSAGE", Outcome.CUT): DELIVERED,
    ("MESSAGE", Outcome.SILENT): DELIVERED,
    ("DISCONNECT", Outcome.CUT): ANSWERED,
    ("DISCONNECT", Outcome.SILENT): ANSWERED,
}
"""The requirement that decides, at each stage, about a close without an ERROR and about silence."""


def broken_by(conversation: Conversation) -> str | None:
    """Return the requirement that the end of ``conversation`` breaks. For a limit below 0, which no
    document mentions, this is a READING."""
    broken = STAGES.get((conversation.stage, conversation.outcome))
    replaced = conversation.replaced
    if replaced.field.name == "content-length" and 0 <= replaced.value < len(BODY):
        # content-length is too small: the rest of the body is not a frame.
        return broken if broken == SEND_REFUSED else None
    limits_below_zero = replaced.field.name in LIMITS and replaced.value < 0
    if broken == DELIVERED and conversation.outcome is Outcome.SILENT and limits_below_zero:
        return NEGATIVE_LIMIT
    return broken


def judge(target: Bench, replaced: Replaced) -> None:
    """Play the conversation and judge its end by the requirement on its last stage; the
    requirements on earlier stages were kept."""
    with bystander(target, "1.2"):
        conversation = Conversation(target, replaced)
        conversation.play()
        broken = broken_by(conversation)
        if broken is not None:
            usual = Conversation(target, replaced, usual=True)
            usual.play()
            detail = f"the conversation should work without the number: {usual.outcome}"
            target.control(usual.outcome is Outcome.WORKED, detail)
        for requirement in dict.fromkeys((*STAGES.values(), NEGATIVE_LIMIT)):
            if requirement in target.cited:
                target.record_finding(requirement, requirement != broken, conversation.detail)


@case(
    TURNED_AWAY, ADMITTED, SUBSCRIBE_REFUSED, SEND_REFUSED, DELIVERED, ANSWERED, needs={"stomp-1.2"}
)
@pytest.mark.parametrize("name", CONNECT_NUMBERS)
@over_boundaries
def test_a_number_of_connect_works_or_is_refused(target: Bench, name: str, position: int) -> None:
    """A CONNECT with a boundary value in its heart-beat header is refused with ERROR, or answered
    with CONNECTED and the session works; another connection is still served.

    One scenario: the stage at which it ends decides which requirement it breaks."""
    judge(target, NumberField("CONNECT", name, *ANY).replaced(position))


@case(SEND_REFUSED, ANSWERED, DELIVERED, needs={"stomp-1.2"})
@pytest.mark.parametrize("name", SEND_NUMBERS)
@over_boundaries
def test_a_number_of_send_works_or_is_refused(target: Bench, name: str, position: int) -> None:
    """A SEND with a boundary value in a header is refused with ERROR, or its RECEIPT and the
    message arrive; another connection is still served."""
    judge(target, NumberField("SEND", name, *ANY).replaced(position))


@case(SUBSCRIBE_REFUSED, SEND_REFUSED, DELIVERED, ANSWERED, NEGATIVE_LIMIT, needs={"stomp-1.2"})
@pytest.mark.parametrize("name", SUBSCRIBE_NUMBERS)
@over_boundaries
def test_a_number_of_subscribe_works_or_is_refused(target: Bench, name: str, position: int) -> None:
    """A SUBSCRIBE with a boundary value in a header is refused with ERROR, or its RECEIPT and
    messages arrive; another connection is still served.

    One scenario: the stage at which it ends decides which requirement it breaks."""
    judge(target, NumberField("SUBSCRIBE", name, *ANY).replaced(position))
