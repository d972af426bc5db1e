"""What a recording of an AMQP 0-9-1 connection shows of a broker: prefetch, delivery tags, and signs of life.

What a correct broker could have done is not held against it. A prefetch may be counted for each consumer or for the channel
(the specification and RabbitMQ differ): only what is more than either allows is a violation, and of the values that a channel
had since a consumer began the largest counts. Acknowledgements in a transaction count at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from harness.oracles.lives import MARGIN, SURELY_LATE
from harness.trace.events import (
    ConnectionAbandoned,
    ConnectionClosed,
    Event,
    FrameReceived,
    FrameSent,
    Headers,
    HeartBeatReceived,
)
from harness.verdicts.finding import Finding
from harness.words import NS_PER_MS, NS_PER_S, Duration, Instant, Seen

PREFETCH, TAGS, BEATS = "AMQP091-QOS-01", "AMQP091-TAG-01", "AMQP091-HB-02"
_ANSWERS = ("basic.ack", "basic.nack", "basic.reject")


@dataclass
class _Consumer:
    limit: int
    """Deliveries that may wait for their acknowledgement; 0 for any number."""
    acknowledges: bool
    held: set[int] = field(default_factory=set)


@dataclass
class _Channel:
    prefetch: int = 0
    tags: set[int] = field(default_factory=set)
    consumers: dict[str, _Consumer] = field(default_factory=dict)
    asked: list[tuple[str, bool]] = field(default_factory=list)
    """Of basic.consume without an answer: the tag, and whether it acknowledges."""

    def begin(self, tag: str, acknowledges: bool) -> None:
        self.consumers[tag] = _Consumer(self.prefetch, acknowledges)

    def set(self, prefetch: int) -> None:
        self.prefetch = prefetch
        for each in self.consumers.values():
            each.limit = 0 if not (each.limit and prefetch) else max(each.limit, prefetch)

    def settle(self, tag: int, multiple: bool) -> None:
        for each in self.consumers.values():
            each.held -= {one for one in each.held if not tag or one <= tag} if multiple else {tag}


def _number(headers: Headers, name: str) -> int:
    return int(next((value for each, value in headers if each == name), "0") or 0)


def _text(headers: Headers, name: str) -> str:
    return next((value for each, value in headers if each == name), "")


def deliveries(events: Sequence[Event], conn: int) -> list[Finding]:
    """Whether no more deliveries waited for their acknowledgement than a prefetch allows, and whether tags were their own."""
    channels: dict[int, _Channel] = {}
    found: list[Finding] = []
    for event in events:
        if event.conn != conn or not isinstance(event, (FrameSent, FrameReceived)):
            continue
        number = _number(event.headers, "channel")
        if event.command in ("channel.open", "channel.close"):
            channels[number] = _Channel()
            continue
        # A channel that was opened before the recording began may have a prefetch and consumers that nobody knows.
        channel = channels.get(number)
        if channel is not None and isinstance(event, FrameSent):
            _said(channel, event)
        elif channel is not None and isinstance(event, FrameReceived):
            found += _came(channel, event)
    return found or [Finding(PREFETCH, Seen.NEVER_REACHED, "nothing was delivered")]


def _said(channel: _Channel, event: FrameSent) -> None:
    headers = event.headers
    match event.command:
        case "basic.qos":
            channel.set(_number(headers, "prefetch-count"))
        case "basic.consume":
            tag, acknowledges = _text(headers, "consumer-tag"), _text(headers, "no-ack") != "true"
            if _text(headers, "no-wait") == "true":
                channel.begin(tag, acknowledges)
            else:
                channel.asked.append((tag, acknowledges))
        case "basic.recover" | "basic.recover-async" | "tx.rollback":
            for each in channel.consumers.values():
                each.held.clear()
        case command if command in _ANSWERS:
            channel.settle(_number(headers, "delivery-tag"), _text(headers, "multiple") == "true")


def _came(channel: _Channel, event: FrameReceived) -> Iterator[Finding]:
    headers = event.headers
    if event.command == "basic.consume-ok" and channel.asked:
        _, acknowledges = channel.asked.pop(0)
        channel.begin(_text(headers, "consumer-tag"), acknowledges)
    if event.command not in ("basic.deliver", "basic.get-ok"):
        return
    tag = _number(headers, "delivery-tag")
    fresh = tag > 0 and tag not in channel.tags
    channel.tags.add(tag)
    yield Finding(TAGS, Seen.HELD if fresh else Seen.VIOLATED, f"a delivery has the tag {tag}")
    consumer = channel.consumers.get(_text(headers, "consumer-tag"))
    if event.command != "basic.deliver" or consumer is None or not consumer.acknowledges:
        return
    consumer.held.add(tag)
    if consumer.limit:
        held = len(consumer.held)
        seen = Seen.HELD if held <= consumer.limit else Seen.VIOLATED
        yield Finding(PREFETCH, seen, f"{held} deliveries wait, of {consumer.limit} that the prefetch allows")


def beats(events: Sequence[Event], conn: int) -> list[Finding]:
    """Whether something came from the broker in each interval of heart-beats that tune-ok said. Whoever recorded may have been
    late by an unknown time: what lies not far outside is uncertain."""
    due: Duration = 0
    last: Instant | None = None
    worst: Duration = -1
    for event in events:
        if event.conn != conn:
            continue
        if isinstance(event, FrameSent) and event.command == "connection.tune-ok":
            due, last = _number(event.headers, "heartbeat") * NS_PER_S, event.at_ns
        elif last is not None and isinstance(event, (FrameReceived, HeartBeatReceived)):
            worst, last = max(worst, event.at_ns - last), event.at_ns
        elif last is not None and isinstance(event, (ConnectionClosed, ConnectionAbandoned)):
            worst = max(worst, event.at_ns - last)
            break
    if not due or worst < 0:
        return [Finding(BEATS, Seen.NEVER_REACHED, "no heart-beats were agreed on, or there was no time for any")]
    allowed = due + max(MARGIN, due // 10)
    detail = f"its longest silence was {worst / NS_PER_MS:g} ms, of {due / NS_PER_MS:g} allowed"
    if worst <= allowed:
        return [Finding(BEATS, Seen.HELD, detail)]
    late = "the recording may have been late" if worst <= SURELY_LATE * allowed + NS_PER_S else None
    return [Finding(BEATS, Seen.VIOLATED, detail, uncertain=late)]
