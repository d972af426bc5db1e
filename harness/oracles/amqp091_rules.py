"""Rules for a recorded AMQP 0-9-1 connection: prefetch, delivery tags and heartbeats.

Behaviour is a violation only if no correct broker could show it. A prefetch may apply to each
consumer or to the channel (the specification and RabbitMQ differ), so only exceeding both is a
violation. The limit is the channel's largest prefetch since the consumer started. Acknowledgements
in a transaction take effect immediately."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.time import NS_PER_S, Duration, Instant, in_ms
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles.connection_lifetimes import MARGIN, is_captured, surely_silent
from brokerproof.harness.protocols.amqp091.fact_reader import ANSWERS, DELIVERIES
from brokerproof.harness.trace.events import (
    ConnectionAbandoned,
    ConnectionClosed,
    Event,
    FrameReceived,
    FrameSent,
    Headers,
    HeartBeatReceived,
)
from brokerproof.harness.trace.facts import number

PREFETCH, TAGS, BEATS = "AMQP091-QOS-01", "AMQP091-TAG-01", "AMQP091-HB-02"
UNKNOWN, BLOCKED = "AMQP091-ACK-01", "RABBITMQ-FLOW-notify-1"
ANNOUNCED = "'connection.blocked': True"
"""The property, as named in traces, with which a client announces support for
connection.blocked."""
PRECONDITION_FAILED = 406


@dataclass
class _Consumer:
    limit: int
    """The maximum of unacknowledged deliveries; 0 for no limit."""
    acknowledges: bool
    held: set[int] = field(default_factory=set)


@dataclass
class _Channel:
    prefetch: int = 0
    tags: set[int] = field(default_factory=set)
    consumers: dict[str, _Consumer] = field(default_factory=dict)
    asked: list[tuple[str, bool]] = field(default_factory=list)
    """The tag and acknowledgement mode of each unanswered basic.consume."""

    def begin(self, tag: str, acknowledges: bool) -> None:
        self.consumers[tag] = _Consumer(self.prefetch, acknowledges)

    def set(self, prefetch: int) -> None:
        self.prefetch = prefetch
        for consumer in self.consumers.values():
            consumer.limit = (
                0 if not (consumer.limit and prefetch) else max(consumer.limit, prefetch)
            )

    def settle(self, tag: int, multiple: bool) -> None:
        for consumer in self.consumers.values():
            consumer.held -= (
                {one for one in consumer.held if not tag or one <= tag} if multiple else {tag}
            )


def _number(headers: Headers, name: str) -> int:
    return number(dict(reversed(headers)), name)


def _text(headers: Headers, name: str) -> str:
    return next((value for header, value in headers if header == name), "")


def deliveries(events: Sequence[Event], conn: int) -> list[Finding]:
    """Check that unacknowledged deliveries stayed within the prefetch and that tags were unique."""
    channels: dict[int, _Channel] = {}
    findings: list[Finding] = []
    for event in events:
        if event.conn != conn or not isinstance(event, (FrameSent, FrameReceived)):
            continue
        number = _number(event.headers, "channel")
        if event.command in ("channel.open", "channel.close"):
            channels[number] = _Channel()
            continue
        # A channel opened before the recording began may have unknown consumers and an unknown
        # prefetch.
        channel = channels.get(number)
        if channel is not None and isinstance(event, FrameSent):
            _said(channel, event)
        elif channel is not None and isinstance(event, FrameReceived):
            findings += _came(channel, event)
    return findings or [Finding(PREFETCH, Seen.NEVER_REACHED, "nothing was delivered")]


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
            for consumer in channel.consumers.values():
                consumer.held.clear()
        case command if command in ANSWERS:
            channel.settle(_number(headers, "delivery-tag"), _text(headers, "multiple") == "true")


def _came(channel: _Channel, event: FrameReceived) -> Iterator[Finding]:
    headers = event.headers
    if event.command == "basic.consume-ok" and channel.asked:
        _, acknowledges = channel.asked.pop(0)
        channel.begin(_text(headers, "consumer-tag"), acknowledges)
    if event.command not in DELIVERIES:
        return
    tag = _number(headers, "delivery-tag")
    fresh = tag > 0 and tag not in channel.tags
    channel.tags.add(tag)
    detail = f"a delivery has the tag {tag}{' again' if tag and not fresh else ''}"
    yield Finding(TAGS, Seen.HELD if fresh else Seen.VIOLATED, detail)
    consumer = channel.consumers.get(_text(headers, "consumer-tag"))
    if event.command != "basic.deliver" or consumer is None or not consumer.acknowledges:
        return
    consumer.held.add(tag)
    if consumer.limit:
        held = len(consumer.held)
        seen = Seen.HELD if held <= consumer.limit else Seen.VIOLATED
        yield Finding(
            PREFETCH,
            seen,
            f"{held} deliveries are unacknowledged; the prefetch allows {consumer.limit}",
        )


def beats(events: Sequence[Event], conn: int) -> list[Finding]:
    """Check that the broker sent something in each heartbeat interval agreed in tune-ok. Since the
    recorder or the network may have been late, slightly longer gaps are uncertain."""
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
        return [
            Finding(
                BEATS,
                Seen.NEVER_REACHED,
                "no heartbeats were agreed on, or the connection was too short for one",
            )
        ]
    most = allowed(due)
    detail = f"longest silence: {in_ms(worst)} ms; expected at most {in_ms(due)} ms"
    if worst <= most:
        return [Finding(BEATS, Seen.HELD, detail)]
    sure = worst > surely_silent(most, captured=is_captured(events, conn))
    late = None if sure else "the recording may have been late"
    return [Finding(BEATS, Seen.VIOLATED, detail, uncertain=late)]


def allowed(due: Duration) -> Duration:
    """Return the longest allowed silence of a broker that promised a heartbeat every ``due``, if
    the recorder may be a little late."""
    return due + max(MARGIN, due // 10)


@dataclass
class _Waiting:
    tags: set[int] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)
    """Consumers that do not acknowledge anything."""
    asked: list[tuple[str, bool]] = field(default_factory=list)
    getting: list[bool] = field(default_factory=list)
    """For each unanswered basic.get, whether its message must be acknowledged."""
    wrong: int | None = None
    """The tag of an acknowledgement that matched no delivery."""
    since: list[str] = field(default_factory=list)
    """Requests sent after this acknowledgement."""


def unknown_tags(events: Sequence[Event], conn: int) -> list[Finding]:
    """Check that the broker closes a channel on which the client acknowledges an unknown or already
    settled tag. A broker that answers a later request instead has not closed the channel. Channels
    with transactions are skipped."""
    channels: dict[int, _Waiting] = {}
    findings: list[Finding] = []
    for event in events:
        if event.conn != conn or not isinstance(event, (FrameSent, FrameReceived)):
            continue
        of = _number(event.headers, "channel")
        if event.command == "channel.open":
            channels[of] = _Waiting()
        elif event.command in ("tx.select", "channel.close-ok") or (
            event.command == "channel.close" and isinstance(event, FrameSent)
        ):
            channels.pop(of, None)
        elif (waiting := channels.get(of)) is None:
            continue
        elif event.command == "channel.close":
            code = _number(event.headers, "reply-code")
            if waiting.wrong is not None and code == PRECONDITION_FAILED:
                findings.append(
                    Finding(
                        UNKNOWN,
                        Seen.HELD,
                        f"an ack of tag {waiting.wrong}, which was not in use, ended the channel",
                    )
                )
            del channels[of]
        elif isinstance(event, FrameSent):
            _answered(waiting, event)
        elif waiting.wrong is not None and event.command in waiting.since:
            detail = (
                f"tag {waiting.wrong} was acknowledged although it was not outstanding; the broker"
                f" then answered with {event.command}"
            )
            findings.append(Finding(UNKNOWN, Seen.VIOLATED, detail))
            waiting.wrong = None
        else:
            _waits(waiting, event)
    return findings or [
        Finding(UNKNOWN, Seen.NEVER_REACHED, "every acknowledged delivery was outstanding")
    ]


def _answered(waiting: _Waiting, event: FrameSent) -> None:
    headers = event.headers
    if event.command in ANSWERS:
        tag = _number(headers, "delivery-tag")
        if _text(headers, "multiple") == "true":
            of = {waiting_tag for waiting_tag in waiting.tags if not tag or waiting_tag <= tag}
            wrong = bool(tag) and not of
        else:
            of, wrong = {tag}, tag not in waiting.tags
        waiting.tags -= of
        if wrong and waiting.wrong is None:
            waiting.wrong, waiting.since = tag, []
    elif event.command in ("basic.recover", "basic.recover-async"):
        waiting.tags.clear()
    elif event.command == "basic.consume":
        acknowledges = _text(headers, "no-ack") != "true"
        waiting.asked.append((_text(headers, "consumer-tag"), acknowledges))
        if not acknowledges:
            waiting.deaf.add(_text(headers, "consumer-tag"))
    elif event.command == "basic.get":
        waiting.getting.append(_text(headers, "no-ack") != "true")
    if event.command in _ASKING:
        waiting.since.append(f"{event.command}-ok")


_ASKING = frozenset(
    {
        *(f"basic.{name}" for name in ("qos", "consume", "cancel", "recover")),
        *(f"queue.{name}" for name in ("declare", "bind", "unbind", "purge", "delete")),
        *(f"exchange.{name}" for name in ("declare", "delete", "bind", "unbind")),
        "confirm.select",
        "channel.flow",
    }
)
"""Methods that the broker answers in order."""


def _waits(waiting: _Waiting, event: FrameReceived) -> None:
    tag = _number(event.headers, "delivery-tag")
    if event.command == "basic.consume-ok" and waiting.asked:
        _, acknowledges = waiting.asked.pop(0)
        if not acknowledges:
            waiting.deaf.add(_text(event.headers, "consumer-tag"))
    elif (
        event.command == "basic.deliver"
        and _text(event.headers, "consumer-tag") not in waiting.deaf
    ):
        waiting.tags.add(tag)
    elif event.command in ("basic.get-ok", "basic.get-empty"):
        acknowledges = waiting.getting.pop(0) if waiting.getting else True
        if acknowledges and event.command == "basic.get-ok":
            waiting.tags.add(tag)


def blocking(events: Sequence[Event], conn: int) -> list[Finding]:
    """Check that connection.blocked was sent only to clients that announced support for it, and
    unblocked only after blocked."""
    announced: bool | None = None
    blocked = False
    findings: list[Finding] = []
    for event in events:
        if event.conn != conn or not isinstance(event, (FrameSent, FrameReceived)):
            continue
        if event.command == "connection.start-ok":
            announced = ANNOUNCED in _text(event.headers, "client-properties")
        elif (
            event.command in ("connection.blocked", "connection.unblocked")
            and announced is not None
        ):
            ends = event.command == "connection.unblocked"
            right = announced and (blocked or not ends)
            why = "after connection.blocked" if blocked else "before any connection.blocked"
            detail = (
                f"{event.command} reached a client that {'has' if announced else 'has not'} the"
                f" capability, {why}"
            )
            findings.append(Finding(BLOCKED, Seen.HELD if right else Seen.VIOLATED, detail))
            blocked = not ends
    return findings or [Finding(BLOCKED, Seen.NEVER_REACHED, "no connection.blocked was sent")]
