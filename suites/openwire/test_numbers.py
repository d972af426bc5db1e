"""Boundary values of every number in the commands and ids that an OpenWire client sends.

Each value is tried on its own connection, in a conversation that uses every command with a number.
The fields are taken from the codec's tables.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from brokerproof.harness.protocols.openwire.raw_peer import answer
from brokerproof.harness.protocols.openwire.tables import BY_NAME
from brokerproof.suites.api import PATIENCE, Bench, Match, case
from brokerproof.suites.api.openwire import OpenWirePeer, Structure, command, dispatch, queue
from brokerproof.suites.openwire.steps import OPENWIRE, QUIET, bystander
from brokerproof.suites.steps.boundaries import (
    JAVA_RANGES,
    ConversationOver,
    Outcome,
    Replaced,
    fields,
    over_boundaries,
)
from brokerproof.suites.steps.queue_model import IN_VIRTUAL_TIME

ARRIVES = "OPENWIRE-ENC-1"
ANSWERED = "OPENWIRE-RESP-1"
STAYS = "OPENWIRE-RESP-2"

MESSAGE = "ActiveMQBytesMessage"
SENT = (
    "SessionInfo",
    "ProducerInfo",
    "ConsumerInfo",
    "DestinationInfo",
    MESSAGE,
    "MessagePull",
    "MessageAck",
    "ConsumerControl",
    "TransactionInfo",
    "RemoveInfo",
    "FlushCommand",
    "MessageId",
    "LocalTransactionId",
    "SessionId",
    "ConsumerId",
    "ProducerId",
)
"""The commands and ids with numbers that clients send."""
FIELDS = {
    str(field): field
    for name in SENT
    for field in fields(
        name, [(field, kind) for field, kind, _ in BY_NAME[name].fields], JAVA_RANGES
    )
    if field.name != "commandId" or name == "FlushCommand"  # one command represents all
}
FAR_MS = 2**53 - 1
"""A time in the future for any broker's clock."""
BEGIN, COMMIT = 0, 2
"""Types of TransactionInfo."""
REFUSALS = ("ExceptionResponse", "ConnectionError")


def silence_is_right(replaced: Replaced) -> bool:
    """True if this number means that no message needs to arrive."""
    match str(replaced.field):
        case "ActiveMQBytesMessage.expiration":
            return 0 < replaced.value < FAR_MS
        case "ConsumerInfo.prefetchSize" | "ConsumerControl.prefetch":
            return replaced.value < 0  # limits dispatches (OPENWIRE-PREFETCH-1)
        case "TransactionInfo.type" | "MessageAck.ackType":
            return True  # a message published in a transaction may stay there, or be gone
    return False


class Conversation:
    """A client's connection with one number replaced."""

    def __init__(self, target: Bench, peer: OpenWirePeer, replaced: Replaced) -> None:
        self.target = target
        self.peer = peer
        self.replaced = replaced
        self.place = queue(target.fresh_name())
        self.published = 0

    def _id(self, name: str, **numbers: Any) -> Structure:
        return Structure(name, {"connectionId": self.peer.name, **numbers})

    def play(self) -> None:
        """Send every command with a number. Raises :class:`ConversationOver` if a command does not
        get its usual answer."""
        session = self._id("SessionId", value=2)
        producer = self._id("ProducerId", sessionId=2, value=1)
        consumer = self._id("ConsumerId", sessionId=2, value=1)
        limit = 0 if self.replaced.field.frame == "MessagePull" else 5
        place = {"destination": self.place}
        own = {"connectionId": self.peer.connection}
        self._call("SessionInfo", {"sessionId": session})
        self._call("DestinationInfo", {**own, **place, "operationType": 0, "timeout": 0})
        self._call("ProducerInfo", {"producerId": producer, **place, "windowSize": 0})
        reader = {"consumerId": consumer, **place}
        self._call("ConsumerInfo", {**reader, "prefetchSize": limit, "priority": 0})
        self._publish(producer, None)
        message = self._receive(reader)
        ids = {"firstMessageId": message["messageId"], "lastMessageId": message["messageId"]}
        self._call("MessageAck", {**reader, **ids, "ackType": 2, "messageCount": 1})
        self._call("ConsumerControl", {**reader, "prefetch": limit})
        transaction = self._id("LocalTransactionId", value=1)
        transaction = Structure(
            "LocalTransactionId", {**transaction.fields, "connectionId": self.peer.connection}
        )
        tx = {**own, "transactionId": transaction}
        self._call("TransactionInfo", {**tx, "type": BEGIN})
        self._publish(producer, transaction)
        self._call("TransactionInfo", {**tx, "type": COMMIT})
        self._receive(reader)
        self._call("FlushCommand", {})
        self._call("RemoveInfo", {"objectId": consumer, "lastDeliveredSequenceId": 0})
        self._call("RemoveInfo", {"objectId": producer, "lastDeliveredSequenceId": 0})

    def _publish(self, producer: Structure, transaction: Structure | None) -> None:
        self.published += 1
        number = {"producerId": producer, "producerSequenceId": self.published}
        fields: dict[str, Any] = {
            "messageId": Structure("MessageId", number),
            "transactionId": transaction,
            "priority": 4,
        }
        message = self.peer.message(producer, self.place, b"content", **fields)
        self._call(MESSAGE, dict(message.fields))

    def _receive(self, reader: Mapping[str, Any]) -> Structure:
        """Return the next message. Pull it if necessary: at a limit of 0 nothing is pushed."""
        self._say("MessagePull", {**reader, "timeout": 0})
        right = silence_is_right(self.replaced)
        match_message: Match[Structure] = Match(
            "a message", lambda reply: dispatch().accepts(reply) and reply["message"] is not None
        )
        reply = self._expect(match_message, "the message", QUIET if right else PATIENCE)
        message = reply["message"]
        assert isinstance(message, Structure)
        return message

    def _say(self, name: str, right: Mapping[str, Any], *, response: bool = False) -> int:
        return self.peer.send(name, self._altered(name, right), response=response)

    def _altered(self, name: str, right: Mapping[str, Any]) -> dict[str, Any]:
        """The fields with the number replaced, including numbers in ids."""
        known = {field for field, _, _ in BY_NAME[name].fields}
        inside = {
            field: Structure(value.name, self._altered(value.name, value.fields))
            if isinstance(value, Structure)
            else value
            for field, value in self.replaced.inside(name, right).items()
        }
        return {field: value for field, value in inside.items() if field in known}

    def _call(self, name: str, right: Mapping[str, Any]) -> None:
        number = self._say(name, right, response=True)
        self._expect(answer(number), f"the answer to {name}", PATIENCE)

    def _expect(self, what: Match[Structure], stage: str, within: int) -> Structure:
        refusal = command("ConnectionError")
        reply = self.peer.watch_for(
            Match(str(what), lambda reply: what.accepts(reply) or refusal.accepts(reply)),
            within=within,
        )
        if reply is not None and reply.name not in REFUSALS:
            return reply
        if reply is not None:
            raise ConversationOver(Outcome.REFUSED, stage, f"got {reply.brief()}")
        outcome = Outcome.SILENT if self.peer.ended is None else Outcome.CUT
        if outcome is Outcome.SILENT and stage == "the message" and silence_is_right(self.replaced):
            outcome = Outcome.WORKED
        raise ConversationOver(outcome, stage, self.peer.instead())


@case(ARRIVES, ANSWERED, STAYS, needs={OPENWIRE, IN_VIRTUAL_TIME})
@pytest.mark.parametrize("field", sorted(FIELDS))
@over_boundaries
def test_a_number_works_or_is_refused(target: Bench, field: str, position: int) -> None:
    """One number of an OpenWire conversation is replaced by a boundary value. The broker answers
    with an exception, or every command gets its response and every message arrives; another
    connection still works."""
    replaced = FIELDS[field].replaced(position)
    stage, detail = "", f"{replaced}: {Outcome.WORKED}"
    with bystander(target):
        peer = target.openwire()
        try:
            Conversation(target, peer, replaced).play()
        except ConversationOver as end:
            detail = f"{replaced}: {end}"
            stage = end.stage if end.outcome in (Outcome.CUT, Outcome.SILENT) else ""
            cut = end.outcome is Outcome.CUT
        peer.close_socket()
    arrival = stage == "the message"
    target.record_finding(ARRIVES, not arrival, detail)
    target.record_finding(STAYS, not stage or not cut, detail)
    target.record_finding(ANSWERED, not stage or arrival or cut, detail)
