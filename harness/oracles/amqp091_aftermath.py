"""General rules for a whole AMQP 0-9-1 connection, including what arrives after the last answer
that a case waited for.

The rules hold for every case, because they bind the broker whatever the client sent.

* After its close, nothing but close-ok arrives on a channel or connection.
* Deliveries go to existing consumers, have unique tags and stay within the prefetch.
* A message is confirmed once, and a close is answered with close-ok.
* A client that sends something in each heartbeat interval keeps its connection, as does a silent
  client if no interval was agreed on. Heartbeats arrive only if an interval was agreed on.

Raw bytes from a client may be any frame, so a connection with raw bytes is judged by the first rule
alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S, Duration, Instant, in_ms
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles import amqp091_rules
from brokerproof.harness.oracles.linger import Linger
from brokerproof.harness.trace.events import (
    ConnectionAbandoned,
    ConnectionClosed,
    Event,
    FrameReceived,
    FrameSent,
    HeartBeatReceived,
    HeartBeatSent,
    OctetsSent,
    OctetsSentUnseen,
)
from brokerproof.harness.trace.facts import is_true, number

CHANNEL_ENDED = "AMQP091-CHAN-02"
BEHIND_CLOSE = "AMQP091-READING-CLOSE-01"
CLOSE_ANSWERED = "AMQP091-CLOSE-01"
CHANNEL_CLOSE_ANSWERED = "AMQP091-CLOSE-03"
CANCELLED = "AMQP091-CONS-03"
CONSUMING = "AMQP091-CONS-06"
CONFIRMED_ONCE = "RABBITMQ-AMQP091-CONF-01"
CLIENT_SPEAKS = "AMQP091-HB-05"
NO_HEARTBEATS = "AMQP091-HB-06"
WRITTEN = (FrameSent, HeartBeatSent, OctetsSent, OctetsSentUnseen)
_CLOSES = ("close", "close-ok")


@dataclass
class _Channel:
    over: str = ""
    """The broker's close or close-ok, which ended the channel."""
    closing_at: Instant | None = None
    """When the client sent a close that is still unanswered."""
    consumers: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    cancelling: list[str] = field(default_factory=list)
    published: int | None = None
    """The number of messages sent since confirm.select, or None without a confirm.select."""
    confirmed: set[int] = field(default_factory=set)
    """Tags that were confirmed individually."""
    confirmed_up_to: int = 0


@dataclass
class _Connection:
    interval: Duration = 0
    is_open: bool = False
    has_raw_bytes: bool = False
    channels: dict[int, _Channel] = field(default_factory=dict)
    has_ended: bool = False
    spoke_at: Instant = 0
    method_at: Instant = 0
    heard_at: Instant = 0
    paused: Duration = 0
    """The client's longest silence."""


def intervals(events: Sequence[Event], conn: int) -> tuple[Duration, Duration]:
    """Return the heartbeat intervals of the client and the broker, in ns; 0 means none."""
    agreed = 0
    for event in events:
        if event.conn == conn and isinstance(event, FrameSent):
            agreed = _interval(event, agreed)
    return agreed, agreed


def _interval(event: FrameSent, before: Duration) -> Duration:
    if event.command != "connection.tune-ok":
        return before
    return number(dict(event.headers), "heartbeat") * NS_PER_S


def judge(events: Sequence[Event], conn: int, linger: Linger) -> list[Finding]:
    """Return the violations on connection ``conn``, one per requirement."""
    own = [event for event in events if event.conn == conn]
    connection = _Connection()
    findings: dict[str, Finding] = {}
    for event in own:
        for finding in _read(connection, event, linger):
            findings.setdefault(finding.requirement, finding)
    if connection.has_raw_bytes:
        return [findings[rule] for rule in (CHANNEL_ENDED, BEHIND_CLOSE) if rule in findings]
    for finding in (
        *_missing(connection, linger),
        *amqp091_rules.deliveries(own, conn),
        *amqp091_rules.blocking(own, conn),
    ):
        if finding.seen is Seen.VIOLATED:
            findings.setdefault(finding.requirement, finding)
    return list(findings.values())


def _violated(requirement: str, detail: str) -> Iterator[Finding]:
    yield Finding(requirement, Seen.VIOLATED, detail)


def _read(connection: _Connection, event: Event, linger: Linger) -> Iterator[Finding]:
    if isinstance(event, WRITTEN):
        connection.paused = max(connection.paused, event.at_ns - connection.spoke_at)
        connection.spoke_at = event.at_ns
    match event:
        case FrameSent():
            _sent(connection, event)
            connection.method_at = event.at_ns
        case OctetsSent() | OctetsSentUnseen():
            connection.has_raw_bytes = True
        case FrameReceived():
            yield from _received(connection, event)
            connection.heard_at = event.at_ns
        case HeartBeatReceived():
            connection.heard_at = event.at_ns
            if connection.is_open and not connection.interval:
                yield from _violated(NO_HEARTBEATS, "a heartbeat arrived, but none was agreed on")
        case ConnectionClosed():
            if not connection.has_ended and linger.undisturbed:
                yield from _undue_end(connection, event.at_ns, linger)
            connection.has_ended = True
        case ConnectionAbandoned():
            connection.has_ended = True


def _channel(connection: _Connection, event: FrameSent | FrameReceived) -> _Channel:
    at = number(dict(event.headers), "channel")
    return connection.channels.setdefault(at, _Channel())


def _sent(connection: _Connection, event: FrameSent) -> None:
    headers, channel = dict(event.headers), _channel(connection, event)
    connection.interval = _interval(event, connection.interval)
    match event.command:
        case "connection.tune-ok":
            connection.paused = 0
        case "channel.close" | "connection.close":
            channel.closing_at = event.at_ns
        case "basic.consume" if is_true(headers, "no-wait"):
            channel.consumers.add(headers.get("consumer-tag", ""))
        case "basic.cancel" if not is_true(headers, "no-wait"):
            channel.cancelling.append(headers.get("consumer-tag", ""))
        case "confirm.select" if channel.published is None:
            channel.published = 0
        case "basic.publish" if channel.published is not None:
            channel.published += 1


def _received(connection: _Connection, event: FrameReceived) -> Iterator[Finding]:
    headers, channel = dict(event.headers), _channel(connection, event)
    at = number(headers, "channel")
    kind, _, name = event.command.partition(".")
    over = connection.channels.get(0, channel).over or channel.over
    if event.command == "channel.open-ok":
        connection.channels[at] = _Channel()
    elif over and name not in _CLOSES:
        requirement = CHANNEL_ENDED if over.startswith("channel.close ") else BEHIND_CLOSE
        yield from _violated(
            requirement, f"after {over} the broker sent {event.command} on channel {at}"
        )
    match event.command:
        case "connection.open-ok":
            connection.is_open = True
        case "channel.close" | "connection.close":
            channel.over = f"{kind}.close ({headers.get('reply-code')})"
        case "channel.close-ok" | "connection.close-ok":
            channel.over, channel.closing_at = event.command, None
        case "basic.consume-ok":
            channel.consumers.add(headers["consumer-tag"])
            channel.cancelled.discard(headers["consumer-tag"])
        case "basic.cancel-ok":
            tag = headers.get("consumer-tag", "")
            if tag in channel.cancelling:
                channel.cancelling.remove(tag)
            if tag in channel.consumers and tag not in channel.cancelling:
                channel.consumers.remove(tag)
                channel.cancelled.add(tag)
        case "basic.deliver":
            yield from _delivered(channel, headers["consumer-tag"])
        case "basic.ack" | "basic.nack":
            yield from _confirmed(channel, event.command, headers)


def _delivered(channel: _Channel, tag: str) -> Iterator[Finding]:
    if tag in channel.cancelled:
        yield from _violated(CANCELLED, "a delivery for the consumer arrived after cancel-ok")
    elif tag not in channel.consumers and not channel.over:
        yield from _violated(CONSUMING, "a delivery arrived for a consumer that does not exist yet")


def _confirmed(channel: _Channel, command: str, headers: dict[str, str]) -> Iterator[Finding]:
    tag, sent = number(headers, "delivery-tag"), channel.published
    if sent is None:
        return
    if is_true(headers, "multiple"):
        below = range(channel.confirmed_up_to + 1, min(tag, sent) + 1)
        is_fresh = any(one not in channel.confirmed for one in below)
        channel.confirmed_up_to = max(channel.confirmed_up_to, min(tag, sent))
    else:
        is_fresh = tag > channel.confirmed_up_to and tag not in channel.confirmed
        channel.confirmed.add(tag)
    if tag > sent or not is_fresh:
        what = "was confirmed before" if tag <= sent else f"was not sent; {sent} were"
        yield from _violated(CONFIRMED_ONCE, f"{command} for message {tag}, which {what}")


def _undue_end(connection: _Connection, at: Instant, linger: Linger) -> Iterator[Finding]:
    """Return a violation if the connection ended without a close, though no client method and no
    silence explains it."""
    main = connection.channels.get(0, _Channel())
    if main.closing_at is not None and not main.over:
        detail = "after the client's connection.close the connection ended without close-ok"
        yield from _violated(CLOSE_ANSWERED, detail)
    if (
        not connection.is_open
        or main.over
        or main.closing_at is not None
        or at - connection.method_at < linger.grace
    ):
        return
    silent = at - connection.spoke_at
    detail = f"the connection ended {in_ms(silent)} ms after the client's last byte"
    if not connection.interval:
        yield from _violated(NO_HEARTBEATS, f"{detail}, although no heartbeats were agreed on")
    elif max(silent, connection.paused) + linger.jitter < connection.interval:
        agreed = connection.interval // NS_PER_MS
        yield from _violated(CLIENT_SPEAKS, f"{detail}; the agreed interval is {agreed} ms")


def _missing(connection: _Connection, linger: Linger) -> Iterator[Finding]:
    """Return a violation if an answer was still missing when the connection was last read."""
    if connection.has_ended or not linger.undisturbed or not connection.is_open:
        return
    main = connection.channels.get(0, _Channel())
    for at, channel in connection.channels.items():
        since = channel.closing_at
        crossed = channel.over or ((main.over or main.closing_at is not None) and at)
        if since is None or crossed or linger.until - since < linger.grace:
            continue
        what = "channel" if at else "connection"
        detail = f"the client's {what}.close was not answered"
        yield from _violated(CHANNEL_CLOSE_ANSWERED if at else CLOSE_ANSWERED, detail)
    silent = linger.until - max(connection.heard_at, linger.since)
    if connection.interval and not main.over and silent > connection.interval + linger.jitter:
        agreed = connection.interval // NS_PER_MS
        detail = f"the broker was silent for {in_ms(silent)} ms; the agreed interval is {agreed} ms"
        yield from _violated(amqp091_rules.BEATS, detail)
