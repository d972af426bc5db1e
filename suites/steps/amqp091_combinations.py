"""One AMQP 0-9-1 consumer with drawn options, and a neighbour without options on another channel.

Whatever the options of basic.qos, basic.consume and basic.publish are, the consumer gets each
message once and holds as many as its prefetch allows. An exclusive consumer has no rival. The
neighbour gets all of its own messages.
"""

from dataclasses import dataclass
from typing import Any

from brokerproof.suites.amqp091.steps import ARGUMENTS, EXCEPTION, arrive, queue_of
from brokerproof.suites.api import Bench, listed
from brokerproof.suites.api.amqp091 import Amqp091Peer, Method
from brokerproof.suites.steps.combinations import Row, Table

PREFETCH, NO_ACK, EXCLUSIVE, NO_WAIT = "prefetch", "no-ack", "exclusive", "no-wait"
NEIGHBOUR, SENT, WITHIN = "neighbour", "sent", "published in"
MODE, EXPIRATION, PRIORITY = "delivery-mode", "expiration", "priority"
MANDATORY, TYPE = "mandatory", "content-type"
FIRST, LAST = "consumes first", "consumes last"
EARLIER, LATER = "before the consume", "after the consume"
CONFIRMS, TRANSACTION = "confirm mode", "a transaction"
MESSAGES = 9
CONSUMER, PUBLISHER, OTHER, RIVAL = 1, 2, 3, 4

TABLE = Table(
    "basic.qos, basic.consume and basic.publish of AMQP 0-9-1",
    {
        PREFETCH: (None, "0", "1", "3"),
        NO_ACK: (None, "true"),
        EXCLUSIVE: (None, "true"),
        NO_WAIT: (None, "true"),
        NEIGHBOUR: (None, FIRST, LAST),
        SENT: (EARLIER, LATER),
        WITHIN: (None, CONFIRMS, TRANSACTION),
        MODE: (None, "1", "2"),
        EXPIRATION: (None, "600000"),
        PRIORITY: (None, "4"),
        MANDATORY: (None, "true"),
        TYPE: (None, "text/plain"),
    },
)


@dataclass(frozen=True)
class Sentences:
    limit: str
    arrives: str
    without_acks: str
    alone: str


class Play:
    def __init__(self, target: Bench, row: Row, sentences: Sentences) -> None:
        self.target = target
        if ARGUMENTS not in target.capabilities:
            row = {**row, EXPIRATION: None}
        self.row = row
        self.sentences = sentences
        self.words = ", ".join(f"{name} {value}" for name, value in row.items() if value)
        self.peer: Amqp091Peer = target.amqp091(channels=RIVAL)
        self.queue = queue_of(self.peer)
        self.other = queue_of(self.peer)
        self.no_ack = row[NO_ACK] is not None
        limit = int(row[PREFETCH] or 0)
        self.limit = MESSAGES if self.no_ack or not limit else limit
        self.arrived: list[bytes] = []

    def run(self) -> None:
        if self.row[NEIGHBOUR] == FIRST:
            self.peer.consume(self.other, channel=OTHER)
        if self.row[SENT] == EARLIER:
            self._publish()
        self._consume()
        if self.row[NEIGHBOUR] == LAST:
            self.peer.consume(self.other, channel=OTHER)
        if self.row[SENT] == LATER:
            self._publish()
        while len(self.arrived) < MESSAGES and self._take():
            pass
        surplus = [delivery.body for delivery in arrive(self.peer, 0, channel=CONSUMER)]
        once = not surplus and sorted(self.arrived) == sorted(set(self.arrived))
        detail = (
            f"{listed(self.arrived)} arrived, and then {listed(surplus)}; options: {self.words}"
        )
        self.target.record_finding(self.sentences.arrives, once, detail)
        if self.row[NEIGHBOUR] is not None:
            got = len(arrive(self.peer, MESSAGES, channel=OTHER))
            detail = f"the other consumer got {got} of {MESSAGES} messages; options: {self.words}"
            self.target.record_finding(self.sentences.arrives, got == MESSAGES, detail)
        if self.row[EXCLUSIVE] is not None:
            self._judge_rival()

    def _consume(self) -> None:
        if self.row[PREFETCH] is not None:
            count = int(str(self.row[PREFETCH]))
            self.peer.call("basic.qos", {"prefetch-count": count}, channel=CONSUMER)
        fields = {
            "queue": self.queue,
            "consumer-tag": "one",
            "no-ack": self.no_ack,
            "exclusive": self.row[EXCLUSIVE] is not None,
        }
        if self.row[NO_WAIT] is None:
            self.peer.call("basic.consume", fields, channel=CONSUMER)
        else:
            self.peer.send("basic.consume", {**fields, "no-wait": True}, channel=CONSUMER)
            self.peer.settle(CONSUMER)

    def _publish(self) -> None:
        within = self.row[WITHIN]
        if within is not None:
            select = "confirm.select" if within == CONFIRMS else "tx.select"
            self.peer.call(select, channel=PUBLISHER)
        properties: dict[str, Any] = {
            name: self.row[name] for name in (EXPIRATION, TYPE) if self.row[name] is not None
        }
        numbers = ((name, self.row[name]) for name in (MODE, PRIORITY))
        properties |= {name: int(value) for name, value in numbers if value is not None}
        queues = [self.queue, *([] if self.row[NEIGHBOUR] is None else [self.other])]
        for queue in queues:
            for number in range(MESSAGES):
                self.peer.publish(
                    b"%d" % number,
                    queue,
                    channel=PUBLISHER,
                    mandatory=self.row[MANDATORY] is not None,
                    properties=properties,
                )
        if within == TRANSACTION:
            self.peer.call("tx.commit", channel=PUBLISHER)
        self.peer.settle(PUBLISHER)

    def _take(self) -> bool:
        """Judge the messages that arrive until the prefetch is used up, and acknowledge them.
        Return False if none arrives; the remaining messages are judged anyway."""
        should = min(self.limit, MESSAGES - len(self.arrived))
        deliveries: list[Method] = arrive(self.peer, should, channel=CONSUMER)
        self.arrived += [delivery.body for delivery in deliveries]
        detail = (
            f"{len(deliveries)} messages arrived without an acknowledgement; expected {should}"
            f" ({self.peer.instead()}); options: {self.words}"
        )
        if not self.no_ack:
            self.target.record_finding(self.sentences.limit, len(deliveries) <= self.limit, detail)
        whose = self.sentences.without_acks if self.no_ack else self.sentences.arrives
        self.target.record_finding(whose, len(deliveries) >= should, detail)
        if deliveries and not self.no_ack:
            self.peer.ack(deliveries[-1]["delivery-tag"], multiple=True, channel=CONSUMER)
        return bool(deliveries)

    def _judge_rival(self) -> None:
        """Judge whether a second consumer of the queue is refused."""
        self.peer.send("basic.consume", {"queue": self.queue}, channel=RIVAL)
        self.peer.refused(EXCEPTION, 403, channel=RIVAL, proves=self.sentences.alone)
