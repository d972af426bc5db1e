"""Facts about one CORE connection, read from its packets: messages sent, deliveries, settlements.

The reader takes events one by one, like :mod:`brokerproof.harness.protocols.stomp.fact_reader`, and
yields the same facts. A fact's ``queue`` is the address here, because both sent and delivered
messages name it. A subscription is named ``CHANNEL:CONSUMER``. Whether messages of an address are
for one consumer or for all is known only if a message or the creation of a queue on the same
connection says so.

Sources: the packets of release 2.56.0 (:mod:`brokerproof.harness.protocols.core.tables`). A closed
session returns the messages that its consumers hold. Messages that a client has only buffered were
not delivered, so they need no redelivery mark.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from brokerproof.harness.trace.facts import (
    FOREKNOWN,
    Delivered,
    End,
    Fact,
    Row,
    Sent,
    Subscribed,
    UnreadableConnection,
    Unsubscribed,
    When,
    is_true,
    number,
)

WITH_BODY = frozenset({"send", "receive"})
STRANGE = ("priority", "expiration", "_AMQ_")
"""Properties, as prefixes of names, that let a broker reorder, delay or drop a message, except
:data:`ROUTING`."""
ROUTING = "_AMQ_ROUTING_TYPE"
ANYCAST = "1"
FORCED = "_hornetq.forced.delivery.seq"
"""The property of the marker that answers a force-delivery; that marker is not a message."""
_ANSWERED = frozenset(
    {"send", "acknowledge", "acknowledge-one", "create-queue", "create-queue-v2", "close-consumer"}
)
"""Packets that are answered if an answer is requested."""
_ALWAYS_ANSWERED = frozenset(
    {"commit", "rollback", "delete-queue", "session-stop", "session-close"}
)
_UNREAD = "packet-"
"""Prefix of the names of packets that are in no table; some may carry a body (large messages)."""


@dataclass(slots=True)
class _Consumer:
    queue: str
    held: dict[str, Delivered] = field(default_factory=dict)
    """Messages held, by the broker's number, in order of delivery."""
    addresses: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Session:
    channel: int
    sends_count: bool = True
    """True if the acknowledgement takes effect immediately, not with the next commit."""
    settles: bool = True
    waiting: deque[list[Sent]] = field(default_factory=deque)
    """For packets with an answer, in order: the messages that the answer confirms."""
    sends: list[Sent] = field(default_factory=list)
    consumers: dict[str, _Consumer] = field(default_factory=dict)


@dataclass
class CoreFactReader:
    """Reads one connection. Only messages in flight are kept in memory."""

    conn: int
    _sessions: dict[int, _Session] = field(default_factory=dict)
    _anycast: dict[str, bool] = field(default_factory=dict)
    _opaque: bool = False
    _ended: bool = False

    def read(self, row: Row) -> Iterator[Fact]:
        """Read one event; yield the facts that it establishes."""
        if self._ended:
            return
        unread = row.kind == "FrameSent" and row.command.startswith(_UNREAD)
        if unread or row.hides_bytes:
            if not self._opaque:
                self._opaque = True
                yield UnreadableConnection(self.conn)
        elif row.kind == "ConnectionAbandoned":
            yield from self.end(row.when)
        elif row.kind == "ConnectionClosed" or (
            row.kind == "FrameReceived" and row.command.startswith("disconnect")
        ):
            yield from self.end((row.when[0] - FOREKNOWN, row.when[1]))
        elif row.kind == "FrameSent":
            yield from self._sent(row)
        elif row.kind == "FrameReceived":
            yield from self._came(row)

    def end(self, when: When | None = None) -> Iterator[Fact]:
        """Yield every open fact in its current state: the connection closed at ``when``, or the
        recording ended (None)."""
        self._ended = True
        for session in self._sessions.values():
            yield from self._close(session, when)
        self._sessions.clear()

    def _session(self, row: Row) -> _Session:
        channel = number(row.headers, "channel")
        return self._sessions.setdefault(channel, _Session(channel))

    def _close(self, session: _Session, when: When | None) -> Iterator[Fact]:
        for name in list(session.consumers):
            yield from self._leave(session, name, when)
        yield from (sent for sends in session.waiting for sent in sends)
        for sent in session.sends:
            yield sent if when is None else replace(sent, withdrawn=True)

    def _leave(self, session: _Session, name: str, when: When | None) -> Iterator[Fact]:
        consumer = session.consumers.pop(name)
        end = End.HELD if when is None else End.RETURNED
        for got in consumer.held.values():
            yield replace(got, end=end, ended=when)
        if when is None:
            return
        yield Unsubscribed(
            consumer.queue, self.conn, f"{session.channel}:{name}", when, noticed=False
        )
        for address in sorted(consumer.addresses - {consumer.queue}):  # only one consumer is left
            yield Unsubscribed(address, self.conn, "", when, noticed=False)

    def _sent(self, row: Row) -> Iterator[Fact]:
        headers, session = row.headers, self._session(row)
        sends: list[Sent] = []
        match row.command:
            case "create-session" | "create-session-v2":
                of = number(headers, "session-channel")
                settles = is_true(headers, "auto-commit-acks")
                self._sessions[of] = _Session(of, is_true(headers, "auto-commit-sends"), settles)
            case "create-queue" | "create-queue-v2":
                anycast = headers.get("routing-type") == ANYCAST
                if "routing-type" in headers:
                    self._anycast[headers.get("address", "")] = anycast
                if any(name in headers for name in ("filter", "ring-size", "last-value-key")):
                    yield Subscribed(
                        headers.get("address", ""), self.conn, "", row.when, selective=True
                    )
            case "delete-queue":
                yield Subscribed(headers.get("queue", ""), self.conn, "", row.when, selective=True)
            case "create-consumer":
                name, queue = headers.get("consumer", ""), headers.get("queue", "")
                session.consumers[name] = _Consumer(queue)
                subscription = f"{session.channel}:{name}"
                yield Subscribed(
                    queue, self.conn, subscription, row.when, selective=bool(headers.get("filter"))
                )
            case "send" if row.key is not None:
                sends = [self._message(session, row)]
            case "acknowledge" | "acknowledge-one":
                yield from self._settled(session, row)
            case "close-consumer" if headers.get("consumer", "") in session.consumers:
                yield from self._leave(session, headers.get("consumer", ""), row.when)
            case "commit":
                sends, session.sends = session.sends, []
            case "rollback":
                yield from (replace(send, withdrawn=True) for send in session.sends)
                session.sends = []
            case "session-close":
                yield from self._close(session, row.when)
                session.sends = []
                session.waiting.clear()
        answered = row.command in _ALWAYS_ANSWERED or (
            row.command in _ANSWERED and is_true(headers, "requires-response")
        )
        if row.command == "send" and not session.sends_count:
            session.sends += sends
            sends = []
        if answered:
            session.waiting.append(sends)
        else:
            yield from sends

    def _message(self, session: _Session, row: Row) -> Sent:
        assert row.key is not None
        strange = any(name.startswith(STRANGE) and name != ROUTING for name in row.headers)
        return Sent(
            row.key,
            row.headers.get("address", ""),
            self.conn,
            row.when,
            confirmed=False,
            withdrawn=False,
            anycast=self._for_one(row),
            strange=strange or not session.sends_count,
            channel=session.channel,
            routed=False,
        )

    def _for_one(self, row: Row) -> bool | None:
        routing = row.headers.get(ROUTING)
        return (
            routing == ANYCAST
            if routing is not None
            else self._anycast.get(row.headers.get("address", ""))
        )

    def _settled(self, session: _Session, row: Row) -> Iterator[Fact]:
        consumer, named = (
            session.consumers.get(row.headers.get("consumer", "")),
            row.headers.get("message", ""),
        )
        if consumer is None or named not in consumer.held:
            return
        of = [named]
        if row.command == "acknowledge":
            before = list(consumer.held)
            of = before[: before.index(named) + 1]
        for delivery in of:
            end = End.ASKED if session.settles else End.TENTATIVE
            yield replace(consumer.held.pop(delivery), end=end, ended=row.when)

    def _came(self, row: Row) -> Iterator[Fact]:
        headers, session = row.headers, self._session(row)
        match row.command:
            case "null-response" | "exception" if session.waiting:
                confirmed = row.command == "null-response"
                yield from (
                    replace(waiting, confirmed=confirmed) for waiting in session.waiting.popleft()
                )
            case "receive" if row.key is not None and FORCED not in headers:
                name, address = headers.get("consumer", ""), headers.get("address", "")
                consumer = session.consumers.setdefault(name, _Consumer(address))
                consumer.addresses.add(address)
                marked = number(headers, "delivery-count") > 1
                subscription, anycast = f"{session.channel}:{name}", self._for_one(row)
                consumer.held[headers.get("message", "")] = Delivered(
                    row.key,
                    address,
                    self.conn,
                    subscription,
                    row.when,
                    marked,
                    End.HELD,
                    None,
                    anycast,
                )
