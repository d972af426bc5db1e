"""Watches both directions of a live connection: which side is silent for longer than agreed, and
whose window stays closed.

A silence is reported as soon as it is certain. A side that grants no credit for :data:`STUCK`
violates no rule, but looks like a stalled application, so one report names the side that could open
the window."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S, Duration, Instant, in_ms
from brokerproof.harness.oracles.amqp091_rules import allowed
from brokerproof.harness.oracles.connection_lifetimes import (
    beat_interval,
    heart_beat,
    surely_silent,
)
from brokerproof.harness.trace.events import (
    ConnectionAbandoned,
    ConnectionClosed,
    Event,
    FrameReceived,
    FrameSent,
    HeartBeatReceived,
    HeartBeatSent,
    OctetsReceivedUnseen,
    OctetsSentUnseen,
)
from brokerproof.harness.trace.facts import number

CLIENT, BROKER = "the client", "the broker"
STUCK: Duration = 30 * NS_PER_S
_OF_STOMP = ("prefetch-count", "activemq.prefetchSize")
_TOKENS = ("ack", "message-id", "delivery-tag")
_SETTLE = ("ACK", "NACK", "basic.ack", "basic.nack", "basic.reject")


@dataclass
class _Half:
    due: Duration = 0
    """The interval in which this side agreed to show signs of life; 0: none."""
    last: Instant = 0
    """The side's last sign of life, or the instant at which one may have been missed."""
    is_told: bool = False


@dataclass
class _Window:
    """At most ``limit`` messages may be in flight (0: unlimited). ``opener`` is the side that can
    make room."""

    opener: str
    limit: int = 0
    used: int = 0
    held: dict[str, None] = field(default_factory=dict)
    is_cumulative: bool = False
    closed_at: Instant | None = None
    """When the window was first seen closed after room was last made."""

    def settle(self, id: str, *, all_before: bool) -> None:
        self.closed_at = None
        if all_before or self.is_cumulative:
            ids = [*self.held]
            del ids[: ids.index(id) + 1 if id in self.held else len(ids) * (id == "0")]
            self.held = dict.fromkeys(ids)
        self.held.pop(id, None)


@dataclass
class Pair:
    """The obligations between the two sides of one connection."""

    halves: Mapping[str, _Half] = field(default_factory=lambda: {CLIENT: _Half(), BROKER: _Half()})
    _windows: dict[str, _Window] = field(default_factory=dict)
    _links: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """Names of windows by the sender of a frame, its channel and its handle."""
    _blocked_at: Instant | None = None
    _told: set[str] = field(default_factory=set)
    _asked: tuple[int, int] = (0, 0)
    _idle: dict[str, int] = field(default_factory=dict)

    def read(self, event: Event) -> None:
        match event:
            case FrameSent() | HeartBeatSent():
                who = CLIENT
            case FrameReceived() | HeartBeatReceived():
                who = BROKER
            case OctetsSentUnseen() | OctetsReceivedUnseen():
                for half in self.halves.values():
                    half.last = event.at_ns  # it may have sent bytes that are still unread
                return
            case ConnectionClosed() | ConnectionAbandoned():
                self.halves = {CLIENT: _Half(), BROKER: _Half()}
                self._windows, self._blocked_at = {}, None
                return
            case _:
                return
        self.halves[who].last, self.halves[who].is_told = event.at_ns, False
        if isinstance(event, (FrameSent, FrameReceived)):
            headers = dict(reversed(event.headers))
            self._agree(who, event, headers)
            if event.protocol == "AMQP":
                self._amqp(who, event.command, headers)
            else:
                self._hold(event.command, headers)

    def pass_time(self, now: Instant) -> Iterator[str]:
        """Yield a sentence for each fault that the silence until ``now`` reveals."""
        for who, half in self.halves.items():
            silence = now - half.last
            if not half.due or half.is_told:
                continue
            if silence > surely_silent(allowed(half.due), captured=True):
                half.is_told = True
                both = ", and so is the other side" if self.halves[_other(who)].is_told else ""
                yield (
                    f"{who} is silent for {silence / NS_PER_MS:.0f} ms; it had promised a beat"
                    f" every {in_ms(half.due)} ms{both}"
                )
        for name, window in self._windows.items():
            if not 0 < window.limit <= window.used + len(window.held):
                window.closed_at = None
            elif window.closed_at is None:
                window.closed_at = now
            elif now - window.closed_at > STUCK:
                yield from self._once(
                    f"{window.opener} leaves the window of {name} closed: it was used up"
                    f" {STUCK // NS_PER_S} s ago, and no credit has been returned since"
                )
        if self._blocked_at is not None and now - self._blocked_at > STUCK:
            yield from self._once(
                f"{BROKER} has kept the connection blocked for {STUCK // NS_PER_S} s"
            )

    def _once(self, sentence: str) -> Iterator[str]:
        if sentence not in self._told:
            self._told.add(sentence)
            yield sentence

    def _agree(self, who: str, event: FrameSent | FrameReceived, headers: dict[str, str]) -> None:
        client, broker = self.halves[CLIENT], self.halves[BROKER]
        match event.command:
            case "CONNECT" | "STOMP":
                self._asked = heart_beat(headers)
            case "CONNECTED":
                (can, wants), (sends, asks) = self._asked, heart_beat(headers)
                client.due, broker.due = beat_interval(can, asks), beat_interval(sends, wants)
                client.last = event.at_ns
            case "connection.tune-ok":
                client.due = broker.due = number(headers, "heartbeat") * NS_PER_S
                broker.last = event.at_ns
            case "open":
                self._idle[_other(who)] = number(headers, "idle-time-out") * NS_PER_MS
                if len(self._idle) == 2:  # a side that sent no open has promised nothing
                    client.due, broker.due = self._idle[CLIENT], self._idle[BROKER]
                    client.last = broker.last = event.at_ns
            case "connection.blocked":
                self._blocked_at = event.at_ns
            case "connection.unblocked":
                self._blocked_at = None
            case "close" | "connection.close" | "DISCONNECT" | "ERROR":
                client.due = broker.due = 0

    def _hold(self, command: str, headers: dict[str, str]) -> None:
        """Unacknowledged deliveries of STOMP and AMQP 0-9-1."""
        of = f"channel {headers['channel']}" if "channel" in headers else "subscription "
        if "channel" not in headers:
            of += headers.get("subscription") or headers.get("id", "")
        match command:
            case "SUBSCRIBE" if (mode := headers.get("ack", "auto")) != "auto":
                limit = max(number(headers, name) for name in _OF_STOMP)
                self._windows[of] = _Window(CLIENT, limit, is_cumulative=mode == "client")
            case "basic.qos":
                limit = number(headers, "prefetch-count")
                self._windows.setdefault(of, _Window(CLIENT)).limit = limit
            case "UNSUBSCRIBE" | "channel.close" | "channel.close-ok" | "basic.cancel":
                self._windows.pop(of, None)
            case "MESSAGE" | "basic.deliver" if (window := self._windows.get(of)) is not None:
                window.held[next(headers[name] for name in _TOKENS if name in headers)] = None
            case _ if command in _SETTLE:
                token = headers.get("id") or next(
                    (headers[name] for name in _TOKENS if name in headers), ""
                )
                for name, window in self._windows.items():
                    if "channel" not in headers or name == of:
                        window.settle(token, all_before=headers.get("multiple") == "true")

    def _amqp(self, who: str, command: str, headers: dict[str, str]) -> None:
        """Credit of AMQP 1.0 links, identified by the name that both sides use."""
        place = who, headers.get("channel", "0"), headers.get("handle", "")
        if command == "attach":
            self._links[place] = name = f"link {headers.get('name')}"
            opener = who if headers.get("role") == "receiver" else _other(who)
            window = self._windows.setdefault(name, _Window(opener))
            window.used = number(headers, "initial-delivery-count") or window.used
        elif command == "detach":
            self._windows.pop(self._links.pop(place, ""), None)
        elif (linked := self._windows.get(self._links.get(place, ""))) is None:
            return
        elif command == "transfer" and headers.get("more") != "true":
            linked.used += 1
        elif command == "flow" and who is not linked.opener:
            linked.used = number(headers, "delivery-count")
        elif command == "flow" and (credit := number(headers, "link-credit")):
            linked.limit, linked.closed_at = number(headers, "delivery-count") + credit, None


def _other(who: str) -> str:
    return BROKER if who is CLIENT else CLIENT
