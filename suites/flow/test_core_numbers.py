"""Boundary values of every number in the packets and messages that a CORE client sends.

Each value is tried on its own connection, in a conversation that uses every packet with a number.
The fields are taken from the codec's tables. A CORE broker closes the connection if it cannot read
a packet, so a close counts as a refusal; silence does not, and neither does a close before the
requested TTL.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from brokerproof.harness.protocols.core.codec import FIRST, LIVENESS, SESSIONS
from brokerproof.harness.protocols.core.fact_reader import FORCED
from brokerproof.harness.protocols.core.messages import HEADERS, Message
from brokerproof.harness.protocols.core.raw_peer import TTL_MS, is_forced
from brokerproof.harness.protocols.core.tables import BY_NAME
from brokerproof.harness.protocols.core.values import encode
from brokerproof.suites.api import PATIENCE, Bench, Match, case, ms
from brokerproof.suites.api.core import Packet, delivery, packet
from brokerproof.suites.steps.boundaries import (
    JAVA_RANGES,
    ConversationOver,
    Outcome,
    Replaced,
    fields,
    over_boundaries,
)
from brokerproof.suites.steps.core import CORE, QUIET, bystander

ARRIVES = "ARTEMIS-CONCEPTS-queue-1"
SEND_ANSWERED = "ARTEMIS-SENDS-send-1"
ACKNOWLEDGE_ANSWERED = "ARTEMIS-SENDS-ack-1"
COMMIT_ANSWERED = "ARTEMIS-SENDS-tx-1"
GRANTED = "ARTEMIS-FLOW-producer-1"
LIVES = "ARTEMIS-TTL-core-1"
ANY_CREDIT = "ARTEMIS-FLOW-consumer-6"
ANY_RING = "ARTEMIS-RING-READING-1"

MESSAGE = "message"
SENT = (
    "ping",
    "packets-confirmed",
    "create-session",
    "create-queue-v2",
    "create-consumer",
    "acknowledge",
    "acknowledge-one",
    "commit",
    "consumer-credits",
    "send",
    "close-consumer",
    "force-delivery",
    "request-producer-credits",
    "create-producer",
    "remove-producer",
)
"""The packets with numbers that clients send."""
FIELDS = {
    str(field): field
    for name, table in (
        *((name, BY_NAME[name].fields) for name in SENT),
        (MESSAGE, [(*header, 0) for header in HEADERS]),
    )
    for field in fields(name, [(field, kind) for field, kind, _ in table], JAVA_RANGES)
}
FAR_MS = 2**53 - 1
"""A time in the future for any broker's clock."""
CREDIT = 5000
"""More bytes than the two messages of a conversation have together."""
ARRIVAL, LIFE = "a message", "the check for silent clients"
FORCED_ANSWER = "the answer to force-delivery"
DECIDES = {
    "send": SEND_ANSWERED,
    "acknowledge": ACKNOWLEDGE_ANSWERED,
    "acknowledge-one": ACKNOWLEDGE_ANSWERED,
    "commit": COMMIT_ANSWERED,
    "request-producer-credits": GRANTED,
    ARRIVAL: ARRIVES,
    FORCED_ANSWER: ARRIVES,
    LIFE: LIVES,
}
"""The requirement that silence at a stage breaks."""
READINGS = {"consumer-credits.credits": ANY_CREDIT, "create-queue-v2.ring-size": ANY_RING}
"""The reading that missing messages break instead, by the field with undocumented values."""
NULL = "null-response"


class Conversation:
    """A client's connection with one number replaced."""

    def __init__(self, target: Bench, replaced: Replaced) -> None:
        self.target = target
        self.replaced = replaced
        self.peer = target.core_peer()
        self.place = target.fresh_name()
        self.channel = self._used("create-session.session-channel", FIRST)
        self.consumer = self._used("create-consumer.consumer", 7)
        self.producer = self._used("create-producer.producer", 3)

    def _used(self, field: str, right: int) -> int:
        """A number that later packets reuse."""
        return self.replaced.value if str(self.replaced.field) == field else right

    def play(self) -> None:
        """Send every packet with a number. Raises :class:`ConversationOver` at the first packet
        that gets an unusual answer or none."""
        own = {"consumer": self.consumer}
        self._begin()
        self._call("create-queue-v2", self._queue(), NULL)
        self._say("create-producer", {"producer": self.producer, "address": self.place})
        self._ask_for_credit()
        opened = {**own, "queue": self.place, "requires-response": True}
        self._call("create-consumer", opened, "queue-query-response-v3")
        self._say("consumer-credits", {**own, "credits": CREDIT})
        for acknowledge in ("acknowledge-one", "acknowledge"):
            self._publish()
            message = self._expect(delivery(self.consumer), ARRIVAL).message
            settled = {**own, "message": message.id, "requires-response": True}
            self._call(acknowledge, settled, NULL)
            self.peer.send("consumer-credits", {**own, "credits": CREDIT}, channel=self.channel)
        self._force()
        self._call("close-consumer", own, NULL)
        self._say("remove-producer", {"producer": self.producer})
        self._live()
        self._call("session-close", {}, NULL)

    def _begin(self) -> None:
        """Begin the connection and a session whose sends wait for a commit."""
        identity = self.target.target.identity
        self.peer.magic()
        self._say("ping", {"connection-ttl": TTL_MS}, channel=LIVENESS)
        session = {
            "name": self.place,
            "session-channel": self.channel,
            "version": self.peer.version,
            "username": identity.login,
            "password": identity.passcode,
            "min-large-message-size": 100 * 1024,
            "auto-commit-acks": True,
            "window-size": -1,
        }
        self._call("create-session", session, "create-session-response", channel=SESSIONS)
        self._say("packets-confirmed", {})
        self._say("session-start", {})

    def _queue(self) -> dict[str, Any]:
        return {
            "address": self.place,
            "queue": self.place,
            "requires-response": True,
            "routing-type": 1,
            "max-consumers": -1,
            "auto-delete": False,
        }

    def _ask_for_credit(self) -> None:
        name = "request-producer-credits"
        request = self.replaced.inside(name, {"credits": CREDIT, "address": self.place})
        self._say(name, request)
        granted = packet("producer-credits", address=self.place, credits=request["credits"])
        if request["credits"] > 0:  # else there is nothing to grant
            self._expect(granted, name)

    def _publish(self) -> None:
        message: Any = self.replaced.inside(
            MESSAGE, {"address": self.place, "body": encode("simple?", "content")}
        )
        send = {"message": Message(**message), "requires-response": True, "sender": self.producer}
        self._call("send", send, NULL)
        self._call("commit", {}, NULL)

    def _force(self) -> None:
        name = "force-delivery"
        force = self.replaced.inside(name, {"consumer": self.consumer, "sequence": 1})
        self._say(name, force)
        if force["consumer"] == self.consumer:  # else nothing is requested
            answer: Match[Packet] = Match(
                FORCED_ANSWER,
                lambda reply: is_forced(reply) and reply.message.get(FORCED) == force["sequence"],
            )
            self._expect(answer, FORCED_ANSWER)

    def _live(self) -> None:
        """Stay silent for two of the broker's checks for silent connections."""
        if self.replaced.field.frame == "ping":
            parameters = self.target.parameters(self.peer.acceptor)
            self.target.advance(ms(2 * int(parameters["connection_ttl_check_interval_ms"] or 0)))
            self._call("queue-query", {"queue": self.place}, "queue-query-response-v3")

    def _say(self, name: str, right: Mapping[str, Any], *, channel: int | None = None) -> None:
        channel = self.channel if channel is None else channel
        self.peer.send(name, self.replaced.inside(name, right), channel=channel)

    def _call(
        self, name: str, right: Mapping[str, Any], answer: str, *, channel: int | None = None
    ) -> None:
        self._say(name, right, channel=channel)
        self._expect(packet(answer), name)

    def _expect(self, what: Match[Packet], stage: str) -> Packet:
        right = stage == ARRIVAL and self._silence_is_right()
        reply = self.peer.watch_for(what, within=QUIET if right else PATIENCE)
        if reply is not None:
            return reply
        words = self.peer.instead()
        if self.peer.ended is not None and self._has_to_live():
            raise ConversationOver(Outcome.CUT, LIFE, words)
        if self.peer.ended is not None or any(map(self.peer.fatal, self.peer.inbox)):
            raise ConversationOver(Outcome.REFUSED, stage, words)
        raise ConversationOver(Outcome.WORKED if right else Outcome.SILENT, stage, words)

    def _silence_is_right(self) -> bool:
        """True if this number means that no message needs to arrive."""
        value = self.replaced.value
        match str(self.replaced.field):
            case "message.expiration":
                return value != 0 and value < FAR_MS
            case "consumer-credits.credits":
                return value == 0 or value < -1  # credit is withdrawn
            case "consumer-credits.consumer":
                return value != self.consumer
            case "create-queue-v2.consumers-before-dispatch":
                return value > 1
            case "create-queue-v2.ring-size":
                return value == 0
        return False

    def _has_to_live(self) -> bool:
        """True if the requested TTL has not expired or never will."""
        value = self.replaced.value
        overridden = self.target.parameters(self.peer.acceptor)["connection_ttl_override_ms"] != -1
        asked = self.replaced.field.frame == "ping" and not overridden
        return asked and (value == -1 or value >= TTL_MS)


@case(
    ARRIVES,
    SEND_ANSWERED,
    ACKNOWLEDGE_ANSWERED,
    COMMIT_ANSWERED,
    GRANTED,
    LIVES,
    *READINGS.values(),
    needs={CORE},
)
@pytest.mark.parametrize("field", sorted(FIELDS))
@over_boundaries
def test_a_number_works_or_is_refused(target: Bench, field: str, position: int) -> None:
    """One number of a CORE conversation is replaced by a boundary value. The broker answers with an
    exception or closes the connection, or every request is answered and every message arrives;
    another connection is still served.

    One scenario: the stage at which it ends decides which requirement it breaks."""
    replaced = FIELDS[field].replaced(position)
    stage, detail = "", f"{replaced}: {Outcome.WORKED}"
    with bystander(target):
        conversation = Conversation(target, replaced)
        try:
            conversation.play()
        except ConversationOver as end:
            detail = f"{replaced}: {end}"
            stage = end.stage if end.outcome in (Outcome.CUT, Outcome.SILENT) else ""
        conversation.peer.close_socket()
    target.control(not stage or stage in DECIDES, detail)
    broken = DECIDES.get(stage)
    if broken == ARRIVES:
        broken = READINGS.get(field, ARRIVES)
    for requirement in dict.fromkeys((*DECIDES.values(), *READINGS.values())):
        target.record_finding(requirement, requirement != broken, detail)
