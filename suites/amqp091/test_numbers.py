"""Boundary values of every number in an AMQP 0-9-1 client's methods and content headers.

Each value is tried on its own connection, in a conversation that uses every method with a number.
The fields are taken from the codec's tables.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.protocols.amqp091.raw_peer import BARRIER
from brokerproof.harness.protocols.amqp091.tables import BASIC, BY_NAME, PROPERTIES
from brokerproof.suites.amqp091.steps import (
    CONFIRMS,
    EXCHANGE_BINDINGS,
    NACK,
    QUIET,
    eventually,
    offers,
    others_work,
    settling,
)
from brokerproof.suites.api import PATIENCE, Bench, Duration, Match, case
from brokerproof.suites.api.amqp091 import Amqp091Peer, Method, either, method
from brokerproof.suites.steps.boundaries import (
    RANGES,
    ConversationOver,
    Outcome,
    Replaced,
    fields,
    over_boundaries,
)

EXCEPTION = "AMQP091-FRAME-08"
CHANNEL_CLOSED = "AMQP091-CLOSE-03"
ARRIVES = "AMQP091-PUB-04"
BADLY_FORMATTED = "AMQP091-CONTENT-01"

SENT = (
    "connection.tune-ok",
    "connection.close",
    "channel.close",
    *(f"exchange.{verb}" for verb in ("declare", "delete", "bind", "unbind")),
    *(f"queue.{verb}" for verb in ("declare", "bind", "purge", "delete", "unbind")),
    *(f"basic.{verb}" for verb in ("qos", "consume", "publish", "get", "ack", "reject", "nack")),
)
"""The methods with numbers that clients send."""
CONTENT = "content"
_HEADER = (("class-id", "short"), ("weight", "short"), ("body-size", "longlong"))
FIELDS = {
    str(field): field
    for field in (
        *(field for name in SENT for field in fields(name, BY_NAME[name].fields, RANGES)),
        *fields(CONTENT, (*_HEADER, *PROPERTIES), {**RANGES, "timestamp": RANGES["longlong"]}),
    )
}
OF_EXTENSIONS = sorted(
    name for name in FIELDS if name.startswith(("exchange.bind", "exchange.unbind", "basic.nack"))
)
HEADER_FIELDS = frozenset(f"{CONTENT}.{name}" for name, _ in _HEADER)
BODY = b"a body"
CLOSES = either(method("channel.close"), method("connection.close"))


def silence_is_right(replaced: Replaced) -> bool:
    """True if the broker must wait for more of the body."""
    return str(replaced.field) == "content.body-size" and replaced.value > len(BODY)


class Conversation:
    """A client's connection with one number replaced."""

    def __init__(self, target: Bench, replaced: Replaced) -> None:
        self.target = target
        self.replaced = replaced
        self.peer: Amqp091Peer = target.amqp091_peer()
        self.queue = target.fresh_name()
        self._confirms = offers(target.target, CONFIRMS)

    def play(self) -> None:
        """Use all the methods. Raises :class:`ConversationOver` if an answer is unusual."""
        peer, identity = self.peer, self.target.target.identity
        peer.start()
        tuned = peer.authenticate(identity.login, identity.passcode)
        right = {name: tuned[name] for name in ("channel-max", "frame-max")}
        peer.frame_max = right["frame-max"]
        self._say("connection.tune-ok", {**right, "heartbeat": 0}, channel=0)
        self._call("connection.open", {"virtual-host": self.peer.virtual_host}, channel=0)
        self._call("channel.open")
        if self._confirms:
            self._call("confirm.select")
        self._call("basic.qos", {"prefetch-count": 5})
        self._declare()
        for settle in settling(self.target.target, ["basic.ack", "basic.nack", "basic.reject"]):
            self._publish()
            delivery = self._call("basic.get", {"queue": self.queue}, "basic.get-ok")
            self._say(settle, {"delivery-tag": delivery["delivery-tag"]})
        self._publish()
        self._call("basic.consume", {"queue": self.queue})
        self._expect(method("basic.deliver"))
        self._clear()
        self._call("channel.close", {"reply-code": 200})
        self._call("connection.close", {"reply-code": 200}, channel=0)

    def _declare(self) -> None:
        """Create a queue and an exchange, bind them, and remove the bindings again."""
        exchange = self.queue
        self._call("queue.declare", {"queue": self.queue, "exclusive": True})
        self._call("exchange.declare", {"exchange": exchange, "type": "fanout"})
        if offers(self.target.target, EXCHANGE_BINDINGS):
            binding = {"destination": exchange, "source": BARRIER, "routing-key": "k"}
            self._call("exchange.bind", binding)
            self._call("exchange.unbind", binding)
        to_queue = {"queue": self.queue, "exchange": BARRIER, "routing-key": exchange}
        self._call("queue.bind", to_queue)
        self._call("queue.unbind", to_queue)
        self._call("exchange.delete", {"exchange": exchange})

    def _publish(self) -> None:
        self._say("basic.publish", {"routing-key": self.queue})
        content = self.replaced.inside(CONTENT, {"class-id": BASIC, "weight": 0})
        size = content.pop("body-size", len(BODY))
        head = {name: content.pop(name) for name in ("class-id", "weight")}
        header = codec.encode_content_header(
            size, content, class_id=head["class-id"], weight=head["weight"]
        )
        self.peer.send_frame(codec.HEADER, 1, header)
        self.peer.send_frame(codec.BODY, 1, BODY)
        if self._confirms:
            patience = QUIET if silence_is_right(self.replaced) else PATIENCE
            self._expect(method("basic.ack"), within=patience)
        else:
            eventually(self.peer, self._has_one)

    def _has_one(self) -> bool:
        there = self._call("queue.declare", {"queue": self.queue, "passive": True})
        return bool(there["message-count"])

    def _clear(self) -> None:
        self._call("queue.purge", {"queue": self.queue})
        self._call("queue.delete", {"queue": self.queue})

    def _say(self, name: str, right: Mapping[str, Any], *, channel: int = 1) -> None:
        self.peer.send(name, self.replaced.inside(name, right), channel=channel)

    def _call(
        self, name: str, right: Mapping[str, Any] | None = None, answer: str = "", channel: int = 1
    ) -> Method:
        self._say(name, right or {}, channel=channel)
        return self._expect(method(answer or f"{name}-ok"))

    def _expect(self, answer: Match[Method], *, within: Duration = PATIENCE) -> Method:
        reply = self.peer.watch_for(either(answer, CLOSES), within=within)
        if reply is not None and answer.accepts(reply):
            return reply
        words = self.peer.instead() if reply is None else f"got {reply.brief()}"
        if reply is not None:
            outcome = Outcome.REFUSED
        elif self.peer.ended is not None:
            before_open = str(answer) == "connection.open-ok"
            outcome = Outcome.REFUSED if before_open else Outcome.CUT  # AMQP091-START-04
        else:
            outcome = Outcome.WORKED if silence_is_right(self.replaced) else Outcome.SILENT
        raise ConversationOver(outcome, str(answer), words)


def _decided_by(field: str, stage: str) -> str:
    """The requirement that a broker breaks if it does not answer at ``stage``, with a replaced
    number in ``field``."""
    if field in HEADER_FIELDS:
        return BADLY_FORMATTED
    if stage in ("basic.ack", "basic.deliver", "basic.get-ok"):
        return ARRIVES
    return CHANNEL_CLOSED if stage == "channel.close-ok" else EXCEPTION


@case(EXCEPTION, CHANNEL_CLOSED, needs={"amqp091", NACK, EXCHANGE_BINDINGS})
@pytest.mark.parametrize("field", OF_EXTENSIONS)
@over_boundaries
def test_a_number_of_an_extension_works_or_is_refused(
    target: Bench, field: str, position: int
) -> None:
    """A number of a supported extension is a boundary value. It works, or gets a reply code."""
    _play(target, field, position, (EXCEPTION, CHANNEL_CLOSED))


@case(EXCEPTION, BADLY_FORMATTED, CHANNEL_CLOSED, ARRIVES, needs={"amqp091"})
@pytest.mark.parametrize("field", sorted(set(FIELDS) - set(OF_EXTENSIONS)))
@over_boundaries
def test_a_number_works_or_is_refused(target: Bench, field: str, position: int) -> None:
    """One number of an AMQP 0-9-1 conversation is replaced by a boundary value. The broker closes
    the channel or the connection with a reply code, or every method gets its answer and every
    message arrives; another connection still works.

    One scenario: the field and the last stage decide which requirement a failed conversation
    breaks."""
    _play(target, field, position, (EXCEPTION, BADLY_FORMATTED, CHANNEL_CLOSED, ARRIVES))


def _play(target: Bench, field: str, position: int, judged: tuple[str, ...]) -> None:
    replaced = FIELDS[field].replaced(position)
    conversation = Conversation(target, replaced)
    stage, detail = "", f"{replaced}: {Outcome.WORKED}"
    try:
        conversation.play()
    except ConversationOver as end:
        detail = f"{replaced}: {end}"
        stage = end.stage if end.outcome in (Outcome.CUT, Outcome.SILENT) else ""
    conversation.peer.close_socket()
    broken = "" if not stage else _decided_by(field, stage)
    for requirement in judged:
        target.record_finding(requirement, requirement != broken, detail)
    others_work(target)
