"""One AMQP 1.0 link with drawn options, and a neighbour without options in the same session.

Whatever the options of open, attach and transfer are, the receiver gets each accepted message that
it selects once, within its credit, settled as negotiated, in frames of an allowed size. The
neighbour gets all of its own messages.
"""

from dataclasses import dataclass
from typing import Any

from brokerproof.harness.protocols.amqp10 import codec, messages
from brokerproof.suites.amqp10.steps import bodies, collect, granted
from brokerproof.suites.api import Bench, RoutingType, listed
from brokerproof.suites.api.amqp10 import AmqpPeer, Delivery, Described, Link, string, symbol
from brokerproof.suites.steps.combinations import Row, Table, excluding
from brokerproof.suites.steps.traces import frames_received

IDLE, FRAME = "idle-time-out", "max-frame-size"
SETTLES, CREDIT, TAKES, SELECTOR = "snd-settle-mode", "credit", "distribution-mode", "filter"
PLACE, NEIGHBOUR, SENT = "place", "neighbour", "sent"
PRESETTLED, DURABLE, TTL, PIECES = "transfers", "durable", "ttl", "frames"
QUEUE, TOPIC = "queue", "topic"
FIRST, LAST = "attaches first", "attaches last"
EARLIER, LATER = "before the attach", "after the attach"
RED = "colour = 'red'"
FILTER = "apache.org:selector-filter:string"
MODES = {"unsettled": 0, "settled": 1, "mixed": 2}
SMALLEST_FRAME = 512
MESSAGES, BYTES = 9, 1200
"""Messages to each link, and the bytes of their bodies: more than the smallest frame holds."""

SPECIFIED = Table(
    "open, attach and transfer of AMQP 1.0",
    {
        SETTLES: (None, *MODES),
        CREDIT: ("1", "4", "100"),
        NEIGHBOUR: (None, FIRST, LAST),
        PLACE: (QUEUE, TOPIC),
        SENT: (EARLIER, LATER),
        TAKES: (None, "move", "copy"),
        IDLE: (None, "60000"),
        FRAME: (None, str(SMALLEST_FRAME)),
        PRESETTLED: (None, "settled"),
        DURABLE: (None, "true", "false"),
        TTL: (None, "600000"),
        PIECES: (None, "three"),
    },
    excluding(
        ((PLACE, TOPIC), (SENT, EARLIER)),
        *(((PLACE, TOPIC), (TAKES, mode)) for mode in ("move", "copy")),
        ((SENT, LATER), (TAKES, "copy")),  # a browser may see messages that already waited
    ),
)
ARTEMIS = Table(
    "open, attach and transfer of AMQP 1.0, with a filter",
    {**SPECIFIED.fields, SELECTOR: (None, RED)},
    SPECIFIED.excluded,
)


@dataclass(frozen=True)
class Sentences:
    """The requirements by which a combination is judged; None means that nothing is judged."""

    arrives: str
    credit: str | None = None
    settled: str | None = None
    unsettled: str | None = None
    fits: str | None = None
    selects: str | None = None
    gone: str | None = None


class Play:
    def __init__(self, target: Bench, row: Row, sentences: Sentences) -> None:
        if row[TAKES] == "copy" and "amqp-copy" not in target.capabilities:
            row = {**row, TAKES: None}
        self.target = target
        self.row = row
        self.sentences = sentences
        self.words = ", ".join(f"{name} {value}" for name, value in row.items() if value)
        opened: dict[str, Any] = {
            name.replace("-", "_"): int(str(row[name])) for name in (IDLE, FRAME) if row[name]
        }
        self.peer: AmqpPeer = target.amqp(**opened)
        self.producer: AmqpPeer = target.amqp()
        topic = row[PLACE] == TOPIC
        self.node = target.node(RoutingType.MULTICAST if topic else RoutingType.ANYCAST)
        self.other = target.node()
        if row[DURABLE] == "true" and not self._takes_durable():
            self.row = {**row, DURABLE: None}
        self.due = [
            number for number in range(MESSAGES) if not row.get(SELECTOR) or number % 3 != 1
        ]
        self.arrived: list[int] = []

    def _takes_durable(self) -> bool:
        """True unless the broker rejects a durable message, as one without a disk may."""
        link = self.producer.sender(self.target.node())
        granted(self.target, self.producer, link)
        delivery = self.producer.post(link, b"kept", sections={"header": {"durable": True}})
        outcome = self.producer.confirmed(link.session, delivery, None)
        return outcome.kind("state") != "rejected"

    def run(self) -> None:
        neighbour = self._neighbour() if self.row[NEIGHBOUR] == FIRST else None
        if self.row[SENT] == EARLIER:
            self._send()
        link = self._attach()
        if self.row[NEIGHBOUR] == LAST:
            neighbour = self._neighbour()
        if self.row[SENT] == LATER:
            self._send()
        while (left := len(self.due) - len(self.arrived)) > 0 and self._take(link, left):
            pass
        if left <= 0:
            self._judge_surplus(link)
        if neighbour is not None:
            got = len(collect(self.target, self.peer, neighbour, MESSAGES))
            detail = f"the other link got {got} of {MESSAGES} messages; options: {self.words}"
            self.target.record_finding(self.sentences.arrives, got == MESSAGES, detail)
        self._judge_frames()
        if left <= 0 and self.row[PLACE] == QUEUE:
            self._judge_rest(link)

    def _neighbour(self) -> Link:
        return self.peer.receiver(self.other, credit=100)

    def _attach(self) -> Link:
        source: dict[str, Any] = {
            "address": self.node.address,
            "capabilities": self.node.capabilities or None,
        }
        if self.row[TAKES] is not None:
            source["distribution-mode"] = self.row[TAKES]
        if self.row.get(SELECTOR) is not None:
            source["filter"] = {FILTER: Described(symbol(FILTER), string(RED))}
        fields: dict[str, Any] = {"source": codec.composite("source", source)}
        if self.row[SETTLES] is not None:
            fields["snd_settle_mode"] = MODES[str(self.row[SETTLES])]
        return self.peer.receiver(self.node, **fields)

    def _send(self) -> None:
        other = self.producer.sender(self.other)
        for number in range(MESSAGES if self.row[NEIGHBOUR] is not None else 0):
            granted(self.target, self.producer, other)
            self.producer.publish(other, b"%d" % number)
        link = self.producer.sender(self.node)
        for number in range(MESSAGES):
            self._send_one(link, number)
        self.producer.settle()

    def _send_one(self, link: Link, number: int) -> None:
        header: dict[str, Any] = {}
        if self.row[DURABLE] is not None:
            header["durable"] = self.row[DURABLE] == "true"
        if self.row[TTL] is not None:
            header["ttl"] = int(str(self.row[TTL]))
        payload = messages.message(
            (b"%d " % number).ljust(BYTES, b"."),
            header=header or None,
            application_properties={"colour": "blue" if number % 3 == 1 else "red"},
        )
        granted(self.target, self.producer, link)
        third = len(payload) // 3 if self.row[PIECES] is not None else len(payload)
        ends = [*range(0, len(payload) - 2, third)]
        settled = True if self.row[PRESETTLED] is not None else None
        delivery = 0
        for place, start in enumerate(ends):
            is_last = place == len(ends) - 1
            piece = payload[start:] if is_last else payload[start : start + third]
            delivery = self.producer.transfer(
                link, piece, settled=settled, more=None if is_last else True
            )
        if not settled:
            self.producer.confirmed(link.session, delivery)

    def _take(self, link: Link, left: int) -> bool:
        """Grant credit, judge the messages that arrive for it, and settle them. Return False if
        none arrives; the remaining messages are judged anyway."""
        credit = int(str(self.row[CREDIT]))
        self.peer.flow(link, link_credit=credit)
        should = min(credit, left)
        deliveries = collect(self.target, self.peer, link, should)
        self.arrived += self._numbers(deliveries)
        detail = (
            f"{len(deliveries)} deliveries arrived for a credit of {credit}; expected {should}"
            f" ({self.peer.instead()}); options: {self.words}"
        )
        if self.sentences.credit is not None:
            self.target.record_finding(self.sentences.credit, len(deliveries) <= credit, detail)
        self._judge_settlement(link, deliveries)
        if self.sentences.selects is not None and self.row.get(SELECTOR) is not None:
            wrong = sorted(set(self.arrived) - set(self.due))
            told = (
                f"not selected by the filter, but arrived: {listed(wrong)}; options: {self.words}"
            )
            self.target.record_finding(self.sentences.selects, not wrong, told)
        self.target.record_finding(self.sentences.arrives, len(deliveries) >= should, detail)
        return bool(deliveries)

    def _judge_settlement(self, link: Link, deliveries: list[Delivery]) -> None:
        assert link.answer is not None
        agreed = link.answer.get("snd-settle-mode", MODES["mixed"])
        settled = [delivery.settled for delivery in deliveries]
        words = f"{sum(settled)} of {len(settled)} deliveries arrived settled"
        detail = f"snd-settle-mode {agreed} was agreed; {words}; options: {self.words}"
        for mode, sentence, kept in (
            ("settled", self.sentences.settled, all(settled)),
            ("unsettled", self.sentences.unsettled, not any(settled)),
        ):
            if sentence is not None and agreed == MODES[mode]:
                self.target.record_finding(sentence, kept, detail)
            elif sentence is not None and self.row[SETTLES] == mode:
                self.target.record_not_applicable(sentence, detail)
        for delivery in deliveries:
            if not delivery.settled:
                self.peer.disposition(delivery)

    def _judge_surplus(self, link: Link) -> None:
        """Judge whether nothing more arrives while credit is left, and that each message arrived
        once."""
        self.peer.flow(link, link_credit=10)
        self.peer.settle()
        self.arrived += self._numbers(collect(self.target, self.peer, link, 0))
        detail = (
            f"{listed(self.arrived)} arrived; expected {listed(self.due)}; options: {self.words}"
        )
        once = sorted(self.arrived) == self.due
        self.target.record_finding(self.sentences.arrives, once, detail)

    def _judge_rest(self, link: Link) -> None:
        """Judge whether a receiver without options gets the messages that this link did not, each
        once and in order."""
        copies = self.row[TAKES] == "copy"
        self.peer.detach(link)
        due = [number for number in range(MESSAGES) if copies or number not in self.due]
        heir = self.peer.receiver(self.node, credit=100)
        left = self._numbers(collect(self.target, self.peer, heir, len(due)))
        detail = (
            f"{listed(left)} remained in the queue; expected {listed(due)}; options: {self.words}"
        )
        self.target.record_finding(self.sentences.arrives, set(due) <= set(left), detail)
        if self.sentences.gone is not None:
            self.target.record_finding(self.sentences.gone, left == due, detail)

    def _judge_frames(self) -> None:
        if self.row[FRAME] is None or self.sentences.fits is None:
            return
        sizes = [event.size for event in frames_received(self.target, self.peer)]
        detail = f"the largest of {len(sizes)} frames has {max(sizes)} bytes; options: {self.words}"
        self.target.record_finding(self.sentences.fits, max(sizes) <= SMALLEST_FRAME, detail)

    def _numbers(self, deliveries: list[Delivery]) -> list[int]:
        """Return the numbers with which the bodies begin. Bodies are only a control here."""
        numbers = [body.partition(b" ")[0] for body in bodies(deliveries)]
        damaged = sum(not number.isdigit() for number in numbers)
        detail = f"{damaged} of {len(numbers)} bodies lack their number; options: {self.words}"
        self.target.control(not damaged, detail)
        return [*map(int, numbers)]
