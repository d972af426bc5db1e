"""One STOMP subscription with drawn options, and a neighbour without options on its connection.

Whatever the options of SUBSCRIBE and SEND are, the subscription gets each confirmed, unexpired
message that it selects once, within its window. The neighbour gets all of its own messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from brokerproof.harness.oracles.window import WindowAccount
from brokerproof.suites.api import PATIENCE, Bench, RoutingType, listed
from brokerproof.suites.api.stomp import Destination, Frame, StompPeer
from brokerproof.suites.steps.combinations import Row, Table, excluding
from brokerproof.suites.steps.queues import QUIET, left_in

VERSION, ACK, WINDOW, SELECTOR = "version", "ack", "window", "selector"
PLACE, NEIGHBOUR, SENT = "place", "neighbour", "sent"
IN_TRANSACTION, PERSISTENT, EXPIRES = "sent in", "persistent", "expires"
LENGTH, TYPE = "content-length", "content-type"
AUTO, CLIENT, INDIVIDUAL = "auto", "client", "client-individual"
QUEUE, TOPIC, DURABLE = "queue", "topic", "durable subscription"
FIRST, LAST = "subscribes first", "subscribes last"
EARLIER, LATER = "before the SUBSCRIBE", "after the SUBSCRIBE"
RED = "colour = 'red'"
PAST, FAR = "1000", "4102444800000"
"""Expiry times: in 1970 and in 2100."""
MESSAGES, BYTES = 12, 200
"""Messages to each subscription, and the bytes of their bodies. All fit into any default window."""

SPECIFIED: Mapping[str, tuple[str | None, ...]] = {
    ACK: (None, AUTO, CLIENT, INDIVIDUAL),
    NEIGHBOUR: (None, FIRST, LAST),
    PLACE: (QUEUE, TOPIC),
    SENT: (EARLIER, LATER),
    IN_TRANSACTION: (None, "a transaction"),
    LENGTH: (None, "given"),
    TYPE: (None, "text/plain"),
}
"""The options that STOMP itself specifies."""
UNKEPT = ((PLACE, TOPIC), (SENT, EARLIER))
"""A topic keeps nothing for later subscribers."""
ARTEMIS = Table(
    "SUBSCRIBE and SEND of STOMP, with Artemis' headers",
    {
        VERSION: ("1.2", "1.1", "1.0"),
        **SPECIFIED,
        WINDOW: (None, "-1", "0", "1000"),
        SELECTOR: (None, RED),
        PLACE: (QUEUE, TOPIC, DURABLE),
        PERSISTENT: (None, "true", "false"),
        EXPIRES: (None, PAST, FAR),
    },
    excluding(
        UNKEPT,
        ((PLACE, DURABLE), (SENT, EARLIER)),
        ((VERSION, "1.0"), (ACK, INDIVIDUAL)),
        *(((ACK, mode), (WINDOW, size)) for mode in (None, AUTO) for size in ("0", "1000")),
    ),
)
ARTEMIS_AUTO = Table(
    "SUBSCRIBE and SEND of STOMP, mode auto with a window of Artemis",
    {**ARTEMIS.fields, ACK: (None, AUTO), WINDOW: ("0", "1000")},
    excluding(UNKEPT, ((PLACE, DURABLE), (SENT, EARLIER))),
)
RABBITMQ = Table(
    "SUBSCRIBE and SEND of STOMP, with RabbitMQ's headers",
    {**SPECIFIED, WINDOW: (None, "1", "2"), PERSISTENT: (None, "true")},
    excluding(UNKEPT),
)
"""``persistent:false`` is left out: RabbitMQ reads ``persistent`` as an alias of ``durable``, a
property of the queue that the SEND declares."""

COMMAND, BEATS, ASKS = "command", "beats every", "asks for beats every"
CLIENT_ID, OFFERS, LISTENS = "client-id", "accept-version", "subscribes to"
CONNECT = Table(
    "CONNECT and STOMP, with Artemis' headers",
    {
        COMMAND: ("CONNECT", "STOMP"),
        VERSION: ("1.2", "1.1"),
        OFFERS: (None, "1.0 too"),
        BEATS: ("1000", "1500"),
        ASKS: ("0", "600"),
        CLIENT_ID: (None, "given"),
        LENGTH: (None, "0"),
        LISTENS: (None, "a queue"),
    },
)


def specified(version: str) -> Table:
    modes = (None, AUTO, CLIENT) if version == "1.0" else SPECIFIED[ACK]
    fields = {**SPECIFIED, ACK: modes}
    return Table(f"SUBSCRIBE and SEND of STOMP {version}", fields, excluding(UNKEPT))


@dataclass(frozen=True)
class Sentences:
    """The requirements by which a combination is judged; None means that nothing is judged.
    ``windows`` has those for each value of the window, with None if it is absent."""

    arrives: str
    windows: Mapping[str | None, str] = field(default_factory=dict)
    selects: str | None = None
    expires: str | None = None
    commits: str | None = None
    auto: str | None = None


@dataclass
class Subscription:
    """One of the two subscriptions. Its ``window`` is a number of bytes or messages."""

    id: str
    to: Destination
    mode: str
    window: WindowAccount
    due: list[int]
    """The numbers of the messages that it should get."""
    held: list[Frame] = field(default_factory=list)
    arrived: list[int] = field(default_factory=list)
    most: int | None = None
    """The number of unacknowledged messages that closed an undocumented window."""

    @property
    def has_all(self) -> bool:
        return set(self.arrived) >= set(self.due)


def number_of(message: Frame) -> int:
    return int(message.body.partition(b" ")[0])


class Play:
    def __init__(self, target: Bench, row: Row, sentences: Sentences) -> None:
        self.target = target
        self.row = row
        self.sentences = sentences
        self.header = str(target.profile.parameters.get("prefetch_header", "consumer-window-size"))
        self.in_messages = target.profile.parameters.get("prefetch_unit") == "messages"
        self.words = ", ".join(f"{name} {value}" for name, value in row.items() if value)
        version = row.get(VERSION) or "1.2"
        durable = {"client-id": target.fresh_name()} if row[PLACE] == DURABLE else {}
        self.peer: StompPeer = target.stomp(version, headers=durable)
        self.producer: StompPeer = target.stomp(version)
        queue = row[PLACE] == QUEUE
        to = target.destination(RoutingType.ANYCAST if queue else RoutingType.MULTICAST)
        mode = row[ACK] or AUTO
        self.first = Subscription("one", to, mode, self._window(mode), self._due())
        self.second = Subscription(
            "two",
            target.destination(),
            CLIENT,
            WindowAccount(self._default(CLIENT)),
            [] if row[NEIGHBOUR] is None else [100 + number for number in range(MESSAGES)],
        )

    def run(self) -> None:
        if self.row[NEIGHBOUR] == FIRST:
            self._subscribe_neighbour()
        if self.row[SENT] == EARLIER:
            self._send()
        self._subscribe()
        if self.row[NEIGHBOUR] == LAST:
            self._subscribe_neighbour()
        if self.row[SENT] == LATER:
            self._send()
        goes_on = self._collect(self.first)
        if self.row[NEIGHBOUR] is not None:
            self._judge_neighbour()
        while goes_on and not self.first.has_all:
            self._acknowledge(self.first)
            goes_on = self._collect(self.first)
        if goes_on:
            self._judge_surplus()
            self._unsubscribe()
        if goes_on and self.row[PLACE] == QUEUE:
            self._judge_rest()

    def _default(self, mode: str) -> int:
        if self.in_messages:
            return -1
        key = "stomp_consumer_window_size" + ("_auto" if mode == AUTO else "")
        return int(self.target.profile.parameters.get(key, -1))

    def _window(self, mode: str) -> WindowAccount:
        named = self.row.get(WINDOW)
        if mode == AUTO:
            return WindowAccount(-1)
        return WindowAccount(self._default(mode) if named is None else int(named))

    def _due(self) -> list[int]:
        return [
            number
            for number in range(MESSAGES)
            if (self.row.get(SELECTOR) is None or self._colour(number) == "red")
            and (self.row.get(EXPIRES) != PAST or not self._expires(number))
        ]

    def _colour(self, number: int) -> str:
        return "blue" if number % 3 == 1 else "red"

    def _expires(self, number: int) -> bool:
        return number % 4 == 2

    def _subscribe(self) -> None:
        headers = {}
        if self.row.get(WINDOW) is not None:
            headers[self.header] = str(self.row[WINDOW])
        if self.row.get(SELECTOR) is not None:
            headers["selector"] = RED
        if self.row[PLACE] == DURABLE:
            headers["durable-subscription-name"] = "one"
        fields = [
            ("id", self.first.id),
            ("destination", self.first.to.name),
            *self.first.to.subscribe_headers,
            *headers.items(),
        ]
        if self.row[ACK] is not None:
            fields.append(("ack", str(self.row[ACK])))
        self.peer.request("SUBSCRIBE", fields)

    def _subscribe_neighbour(self) -> None:
        self.peer.subscribe(self.second.to, self.second.id, ack=self.second.mode)

    def _send(self) -> None:
        for number in self.second.due:
            self.producer.publish(self.second.to, self._body(number), receipt=False)
        self.producer.settle()
        transaction = self.producer.transaction if self.row[IN_TRANSACTION] is not None else None
        if transaction is not None:
            self.producer.request("BEGIN", {"transaction": transaction})
        for number in range(MESSAGES):
            self._send_one(number, transaction)
        self.producer.settle()
        if transaction is not None:
            self.peer.settle()
            seen = [item for item in self.peer.inbox if item.command == "MESSAGE"]
            early = [number for number in map(number_of, seen) if number < MESSAGES]
            if self.sentences.commits is not None:
                detail = (
                    f"{listed(early)} of {MESSAGES} arrived before COMMIT; options: {self.words}"
                )
                self.target.record_finding(self.sentences.commits, not early, detail)
            self.producer.request("COMMIT", {"transaction": transaction})

    def _send_one(self, number: int, transaction: str | None) -> None:
        body = self._body(number)
        headers = {"colour": self._colour(number)}
        if transaction is not None:
            headers["transaction"] = transaction
        if self.row.get(PERSISTENT) is not None:
            headers["persistent"] = str(self.row[PERSISTENT])
        if self.row.get(EXPIRES) is not None and self._expires(number):
            headers["expires"] = str(self.row[EXPIRES])
        if self.row[LENGTH] is not None:
            headers["content-length"] = str(len(body))
        if self.row[TYPE] is not None:
            headers["content-type"] = str(self.row[TYPE])
        to = self.first.to
        fields = (("destination", to.name), *to.send_headers, *headers.items())
        self.producer.send("SEND", fields, body)

    @staticmethod
    def _body(number: int) -> bytes:
        return (b"%d " % number).ljust(BYTES, b".")

    def _take(self) -> None:
        """Pass each message to the subscription that it names, and judge the window."""
        for message in self.peer.take_messages():
            number = number_of(message)
            subscription = self.first if number < MESSAGES else self.second
            size = 1 if self.in_messages else message.size
            allowed = subscription.window.delivered(size)
            if subscription.mode == AUTO:
                subscription.window.held.clear()
            elif subscription is self.first and (judged := self._window_sentence()) is not None:
                held = len(subscription.held)
                detail = f"{number} arrived while {held} were unacknowledged; options: {self.words}"
                self.target.record_finding(judged, allowed, detail)
            if subscription.mode != AUTO:
                subscription.held.append(message)
            subscription.arrived.append(number)

    def _collect(self, subscription: Subscription) -> bool:
        """Take messages until the window is closed or all have arrived; :meth:`_take` judges later
        ones at the next stop. Return False if the subscription stalls; the other messages are
        judged anyway.
        """

        def is_over() -> bool:
            self._take()
            full = subscription.most is not None and len(subscription.held) >= subscription.most
            shut = subscription.mode != AUTO and (full or not subscription.window.open)
            return shut or subscription.has_all or self.peer.ended is not None

        if not self.target.wait_until(is_over, PATIENCE) or self.peer.ended is not None:
            if subscription.held and self.peer.ended is None and not self.sentences.windows:
                subscription.most = len(subscription.held)  # acknowledgements must open the window
                return True
            missing = sorted(set(subscription.due) - set(subscription.arrived))
            whose = (
                "the other subscription, which sets no options,"
                if subscription is self.second
                else "the subscription"
            )
            detail = (
                f"{whose} got {len(subscription.arrived)} of {len(subscription.due)} messages;"
                f" {len(subscription.held)} are unacknowledged, and {listed(missing)} did not"
                f" arrive ({self.peer.instead()}); options: {self.words}"
            )
            self.target.record_finding(self._stall_sentence(subscription), False, detail)
            return False
        self.peer.settle()
        self._take()
        return True

    def _stall_sentence(self, subscription: Subscription) -> str:
        """Return the requirement that missing messages break."""
        if subscription is self.second:
            return self.sentences.windows.get(None, self.sentences.arrives)
        return self._window_sentence() or self.sentences.arrives

    def _window_sentence(self) -> str | None:
        return self.sentences.windows.get(self.row.get(WINDOW))

    def _judge_neighbour(self) -> None:
        if not self._collect(self.second):
            return
        while self.second.most is not None and not self.second.has_all:
            self._acknowledge(self.second)
            if not self._collect(self.second):
                return
        sentence = self._stall_sentence(self.second)
        arrived = len(self.second.arrived)
        words = f"{arrived} of {MESSAGES} messages of the other subscription arrived"
        detail = f"{words}; options: {self.words}"
        self.target.record_finding(sentence, self.second.has_all, detail)

    def _acknowledge(self, subscription: Subscription) -> None:
        held = subscription.held
        for message in held if subscription.mode == INDIVIDUAL else held[-1:]:
            self.peer.ack(message)
        held.clear()
        subscription.window.held.clear()

    def _judge_surplus(self) -> None:
        """Judge whether each due message has arrived once, and no other message has."""
        if self.first.mode != AUTO:
            self._acknowledge(self.first)
        self.peer.settle()
        self.target.wait_until(lambda: self.peer.ended is not None, QUIET)
        self._take()
        got, due = self.first.arrived, self.first.due
        surplus = set(got) - set(due)
        detail = f"{listed(got)} arrived; expected {listed(due)}; options: {self.words}"
        record = self.target.record_finding
        once = len(got) == len(set(got))
        record(self.sentences.arrives, once and set(got) >= set(due), detail)
        if self.sentences.selects is not None and self.row.get(SELECTOR) is not None:
            wrong = [number for number in surplus if self._colour(number) != "red"]
            record(self.sentences.selects, not wrong, detail)
        if self.sentences.expires is not None and self.row.get(EXPIRES) == PAST:
            record(self.sentences.expires, not any(map(self._expires, surplus)), detail)
        if (sentence := self._window_sentence()) is not None:
            record(sentence, True, detail)

    def _unsubscribe(self) -> None:
        """End the subscription, and send one more message that it would select. General rules judge
        that this message does not arrive (``harness/oracles/stomp_aftermath.py``)."""
        self.peer.request("UNSUBSCRIBE", {"id": self.first.id})
        self._send_one(MESSAGES, None)
        self.producer.settle()
        self.peer.settle()

    def _judge_rest(self) -> None:
        """Judge whether a subscription without options gets the remaining messages, once and in
        order."""
        gone = self._expires if self.row.get(EXPIRES) == PAST else lambda number: False
        due = [n for n in range(MESSAGES + 1) if n not in self.first.due and not gone(n)]
        version = self.row.get(VERSION) or "1.2"
        bodies = left_in(self.target, self.first.to, version, len(due))
        left = [int(body.partition(b" ")[0]) for body in bodies]
        detail = (
            f"{listed(left)} remained in the queue; expected {listed(due)}; options: {self.words}"
        )
        settled = set(self.first.arrived) if self.first.mode == AUTO else set()
        if self.sentences.auto is not None and self.first.mode == AUTO:
            self.target.record_finding(self.sentences.auto, settled.isdisjoint(left), detail)
            left = [number for number in left if number not in settled]
        self.target.record_finding(self.sentences.arrives, left == due, detail)
