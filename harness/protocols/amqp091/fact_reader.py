"""Facts about one AMQP 0-9-1 connection, read from its methods: messages sent, deliveries and their
outcomes.

The reader takes events one by one, like :mod:`brokerproof.harness.protocols.stomp.fact_reader`, and
yields the same facts. For the default exchange, a queue is named by the routing key. Through
another exchange, a message may reach any number of queues, so its queue is named
``/exchange/NAME/KEY`` both when published and when delivered. A subscription is named
``CHANNEL:TAG``.

A message is confirmed by the broker's basic.ack in confirm mode, or by tx.commit-ok. Its loss is
certain only if a queue for it certainly existed: the message was mandatory and not returned, or its
own connection had declared the queue.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from brokerproof.harness.trace.facts import (
    FOREKNOWN,
    Delivered,
    End,
    Fact,
    Key,
    Row,
    Sent,
    Subscribed,
    UnreadableConnection,
    Unsubscribed,
    When,
    is_true,
    number,
)

DELIVERIES = frozenset({"basic.deliver", "basic.get-ok"})
WITH_BODY = frozenset({"basic.publish", "basic.return", *DELIVERIES})
ANSWERS = frozenset({"basic.ack", "basic.nack", "basic.reject"})
EXCHANGE = "/exchange/"
STRANGE = ("priority", "expiration")
"""Properties of a message that let a broker reorder or drop it."""
DEAD = "x-death"
"""The header of a message that one queue dead-lettered to another, not published there."""
CHANGEABLE = ("x-message-ttl", "x-expires", "x-max-", "x-dead-letter", "x-overflow")
"""Prefixes of queue arguments that let a queue drop or reorder messages."""


def queue_of(headers: Mapping[str, str]) -> str:
    """Return the queue or exchange path of a message, given its exchange and its routing key."""
    exchange, key = headers.get("exchange", ""), headers.get("routing-key", "")
    return f"{EXCHANGE}{exchange}/{key}" if exchange else key


@dataclass(slots=True)
class _Channel:
    """One channel. ``published`` is counted from confirm.select; None if that was not seen."""

    number: int
    published: int | None = None
    awaiting: dict[int, Sent] = field(default_factory=dict)
    transactional: bool = False
    sends: list[Sent] = field(default_factory=list)
    committing: list[Sent] = field(default_factory=list)
    consumers: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """For each tag, the queue and whether deliveries must be acknowledged."""
    asking: deque[tuple[str, str, bool]] = field(default_factory=deque)
    """Each unanswered basic.consume: tag, queue, and whether deliveries must be acknowledged."""
    getting: deque[tuple[str, bool]] = field(default_factory=deque)
    declaring: deque[str] = field(default_factory=deque)
    leaving: dict[str, Unsubscribed] = field(default_factory=dict)
    held: dict[int, Delivered] = field(default_factory=dict)
    gotten: set[str] = field(default_factory=set)
    """Queues from which the client has requested messages with basic.get."""
    queue: str = ""
    """The queue declared last, to which an empty name refers."""
    closing: bool = False


@dataclass
class Amqp091FactReader:
    """Reads one connection. Only messages in flight are kept in memory."""

    conn: int
    _channels: dict[int, _Channel] = field(default_factory=dict)
    _declared: set[str] = field(default_factory=set)
    _opaque: bool = False
    _ended: bool = False

    def read(self, row: Row) -> Iterator[Fact]:
        """Read one event; yield the facts that it establishes."""
        if self._ended:
            return
        if row.hides_bytes:
            if not self._opaque:
                self._opaque = True
                yield UnreadableConnection(self.conn)
        elif row.kind == "ConnectionAbandoned" or (
            row.command == "connection.close" and row.kind == "FrameSent"
        ):
            yield from self.end(row.when)
        elif row.kind == "ConnectionClosed" or row.command == "connection.close":
            yield from self.end((row.when[0] - FOREKNOWN, row.when[1]))
        elif row.kind in ("FrameSent", "FrameReceived"):
            of = number(row.headers, "channel")
            channel = self._channels.setdefault(of, _Channel(of))
            if row.command in ("channel.open", "channel.close", "channel.close-ok"):
                yield from self._turned(channel, row)
            elif not channel.closing:
                yield from (
                    self._sent(channel, row)
                    if row.kind == "FrameSent"
                    else self._came(channel, row)
                )

    def end(self, when: When | None = None) -> Iterator[Fact]:
        """Yield every open fact in its current state: the connection closed at ``when``, or the
        recording ended (None)."""
        self._ended = True
        for channel in self._channels.values():
            yield from self._close(channel, when)
        self._channels.clear()

    def _turned(self, channel: _Channel, row: Row) -> Iterator[Fact]:
        if row.command == "channel.open":
            yield from self._close(channel, row.when)
            self._channels[channel.number] = _Channel(channel.number)
            return
        if not channel.closing:
            known = row.when if row.kind == "FrameSent" else (row.when[0] - FOREKNOWN, row.when[1])
            yield from self._close(channel, known)
        fresh = self._channels[channel.number] = _Channel(channel.number)
        # Later frames were in flight when we closed it; nobody processes them.
        fresh.closing = row.command == "channel.close"

    def _close(self, channel: _Channel, when: When | None) -> Iterator[Fact]:
        yield from (*channel.awaiting.values(), *channel.committing)
        for sent in channel.sends:
            yield sent if when is None else replace(sent, withdrawn=True)
        for held in channel.held.values():
            yield replace(held, end=End.HELD if when is None else End.LOST, ended=when)
        if when is None:
            yield from channel.leaving.values()
            return
        for tag, (queue, _) in channel.consumers.items():
            yield Unsubscribed(queue, self.conn, f"{channel.number}:{tag}", when, noticed=False)
        for at, queue in enumerate(sorted(channel.gotten)):
            yield Unsubscribed(
                queue, self.conn, "" if at else f"{channel.number}:", when, noticed=False
            )
        yield from channel.leaving.values()

    def _sent(self, channel: _Channel, row: Row) -> Iterator[Fact]:
        headers, command = row.headers, row.command
        match command:
            case "basic.publish" if row.key is not None and not _torn(row):
                yield from self._published(channel, row, row.key)
            case "confirm.select":
                channel.published = 0 if channel.published is None else channel.published
            case "tx.select":
                channel.transactional = True
            case "tx.commit":
                channel.committing, channel.sends = [*channel.committing, *channel.sends], []
            case "tx.rollback":
                yield from (replace(send, withdrawn=True) for send in channel.sends)
                channel.sends = []
            case "basic.consume":
                place = (headers.get("consumer-tag", ""), headers.get("queue", "") or channel.queue)
                if is_true(headers, "no-wait"):
                    yield self._begun(channel, *place, not is_true(headers, "no-ack"), row.when)
                else:
                    channel.asking.append((*place, not is_true(headers, "no-ack")))
            case "basic.get":
                queue = headers.get("queue", "") or channel.queue
                channel.getting.append((queue, not is_true(headers, "no-ack")))
                channel.gotten.add(queue)
            case "basic.cancel":
                yield from self._cancelled(channel, row, noticed=False)
            case "basic.recover" | "basic.recover-async":
                yield from (
                    replace(held, end=End.REFUSED, ended=row.when) for held in channel.held.values()
                )
                channel.held.clear()
            case command if command in ANSWERS:
                yield from self._answered(channel, row)
            case "queue.declare" | "queue.delete" | "queue.purge":
                yield from self._queued(channel, row)

    def _published(self, channel: _Channel, row: Row, key: Key) -> Iterator[Fact]:
        queue = queue_of(row.headers)
        by_default = not row.headers.get("exchange", "")
        sent = Sent(
            key,
            queue,
            self.conn,
            row.when,
            confirmed=False,
            withdrawn=False,
            anycast=True if by_default else None,
            strange=channel.transactional or any(name in row.headers for name in STRANGE),
            channel=channel.number,
            routed=is_true(row.headers, "mandatory") or (by_default and queue in self._declared),
        )
        if channel.transactional:
            channel.sends.append(sent)
        elif channel.published is not None:
            channel.published += 1
            channel.awaiting[channel.published] = sent
        else:
            yield sent

    def _queued(self, channel: _Channel, row: Row) -> Iterator[Fact]:
        queue = row.headers.get("queue", "")
        if row.command == "queue.declare":
            channel.queue = queue
            if not is_true(row.headers, "no-wait"):
                channel.declaring.append(queue)
            arguments = row.headers.get("arguments", "")
            goes = is_true(row.headers, "exclusive") or is_true(row.headers, "auto-delete")
            if is_true(row.headers, "passive") or not (
                goes or any(name in arguments for name in CHANGEABLE)
            ):
                return
        yield Subscribed(queue or channel.queue, self.conn, "", row.when, selective=True)

    def _begun(
        self, channel: _Channel, tag: str, queue: str, acknowledges: bool, when: When
    ) -> Subscribed:
        channel.consumers[tag] = queue, acknowledges
        return Subscribed(queue, self.conn, f"{channel.number}:{tag}", when, selective=False)

    def _cancelled(self, channel: _Channel, row: Row, *, noticed: bool) -> Iterator[Fact]:
        tag = row.headers.get("consumer-tag", "")
        if tag not in channel.consumers:
            return
        queue, _ = channel.consumers[tag]
        left = Unsubscribed(queue, self.conn, f"{channel.number}:{tag}", row.when, noticed)
        if noticed or is_true(row.headers, "no-wait"):
            del channel.consumers[tag]
            yield left
        else:
            channel.leaving[tag] = left

    def _answered(self, channel: _Channel, row: Row) -> Iterator[Fact]:
        tag, multiple = number(row.headers, "delivery-tag"), is_true(row.headers, "multiple")
        settled = [tag]
        if multiple:
            settled = [held_tag for held_tag in channel.held if not tag or held_tag <= tag]
        back = row.command != "basic.ack" and row.headers.get("requeue", "true") == "true"
        end = End.TENTATIVE if channel.transactional else End.REFUSED if back else End.ASKED
        for settled_tag in settled:
            held = channel.held.pop(settled_tag, None)
            if held is not None:
                yield replace(held, end=end, ended=row.when)

    def _came(self, channel: _Channel, row: Row) -> Iterator[Fact]:
        headers = row.headers
        match row.command:
            case "basic.deliver" | "basic.get-ok":
                yield from self._delivered(channel, row)
            case "basic.get-empty" if channel.getting:
                channel.getting.popleft()
            case "basic.consume-ok" if channel.asking:
                _, queue, acknowledges = channel.asking.popleft()
                yield self._begun(
                    channel, headers.get("consumer-tag", ""), queue, acknowledges, row.when
                )
            case "basic.cancel-ok":
                left = channel.leaving.pop(headers.get("consumer-tag", ""), None)
                if left is not None:
                    channel.consumers.pop(headers.get("consumer-tag", ""), None)
                    yield replace(left, noticed=True)
            case "basic.cancel":  # the queue is gone
                tag = headers.get("consumer-tag", "")
                if tag in channel.consumers:
                    yield Subscribed(
                        channel.consumers[tag][0], self.conn, "", row.when, selective=True
                    )
                yield from self._cancelled(channel, row, noticed=True)
            case "queue.declare-ok" if channel.declaring:
                channel.declaring.popleft()
                channel.queue = headers.get("queue", "")
                self._declared.add(channel.queue)
            case "basic.ack" | "basic.nack":
                yield from self._confirmed(channel, row)
            case "basic.return" if row.key is not None:
                yield from self._returned(channel, row, row.key)
            case "tx.commit-ok":
                yield from (replace(sent, confirmed=True) for sent in channel.committing)
                channel.committing = []

    def _confirmed(self, channel: _Channel, row: Row) -> Iterator[Fact]:
        tag, multiple = number(row.headers, "delivery-tag"), is_true(row.headers, "multiple")
        confirmed = [tag]
        if multiple:
            confirmed = [sent_tag for sent_tag in channel.awaiting if not tag or sent_tag <= tag]
        for confirmed_tag in confirmed:
            sent = channel.awaiting.pop(confirmed_tag, None)
            if sent is not None:
                yield replace(sent, confirmed=row.command == "basic.ack")

    def _returned(self, channel: _Channel, row: Row, key: Key) -> Iterator[Fact]:
        """Record that a message was returned: no queue received it, so its confirmation means
        nothing."""
        queue = queue_of(row.headers)
        for tag, sent in channel.awaiting.items():
            if (sent.key, sent.queue) == (key, queue):
                del channel.awaiting[tag]
                yield sent
                return

    def _delivered(self, channel: _Channel, row: Row) -> Iterator[Fact]:
        headers, tag = row.headers, row.headers.get("consumer-tag", "")
        acknowledges = True
        if row.command == "basic.get-ok" and channel.getting:
            _, acknowledges = channel.getting.popleft()
        elif tag in channel.consumers:  # else it began before the recording
            _, acknowledges = channel.consumers[tag]
        if row.key is None or _torn(row) or DEAD in headers.get("headers", ""):
            return
        got = Delivered(
            row.key,
            queue_of(headers),
            self.conn,
            f"{channel.number}:{tag}",
            row.when,
            is_true(headers, "redelivered"),
            End.HELD,
            None,
            None if headers.get("exchange", "") else True,
        )
        if acknowledges:
            named = number(headers, "delivery-tag")
            if named in channel.held:  # an answer may refer to either delivery
                yield replace(channel.held[named], end=End.TENTATIVE, ended=row.when)
            channel.held[named] = got
        else:
            yield replace(got, end=End.ASKED, ended=row.when)


def _torn(row: Row) -> bool:
    """Return True if any content was interrupted."""
    return row.headers.get("complete") == "false"
