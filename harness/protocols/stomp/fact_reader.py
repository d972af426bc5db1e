"""Facts about one STOMP connection, read from its frames: messages sent, deliveries and their
outcomes, overrun windows.

The reader takes events one by one and needs no plan of the case. Unknown facts stay open: an ACK
without a requested receipt was *asked*, not settled; messages of a transaction are confirmed by the
receipt of COMMIT. If the client wrote bytes that are not a frame, the connection is *opaque*: the
meaning of those bytes is unknown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from brokerproof.harness.model.wire_numbers import whole_number
from brokerproof.harness.trace.facts import (
    FOREKNOWN,
    Delivered,
    End,
    Fact,
    Key,
    Overrun,
    Row,
    Sent,
    Subscribed,
    UnreadableConnection,
    Unsubscribed,
    When,
)

STRANGE = ("priority", "expires", "AMQ_", "_AMQ", "transaction")
"""SEND headers, as prefixes of names, that let a broker reorder, delay or drop the message. A
message in a transaction takes its place at the commit."""


@dataclass(slots=True)
class Delivery:
    """A delivery that a consumer holds; ``size`` is in bytes."""

    key: Key
    when: When
    marked: bool
    size: int


@dataclass(slots=True)
class Subscription:
    """A consumer and the deliveries that it holds. ``mode`` is None if the recording began after
    its SUBSCRIBE."""

    name: str
    queue: str
    mode: str | None
    window: int | None = None
    unit: str = "octets"
    anycast: bool | None = None
    held: dict[str, Delivery] = field(default_factory=dict)
    held_bytes: int = 0
    """The total size of the messages held."""


@dataclass
class StompFactReader:
    """Reads one connection. Only deliveries that consumers hold and SENDs that await a receipt are
    kept.

    ``windows``: SUBSCRIBE headers that request a window, each with its unit (``octets`` or
    ``messages``). ``window``: the window if a SUBSCRIBE names none (None: unknown).
    """

    conn: int
    windows: Mapping[str, str] = field(default_factory=dict)
    window: int | None = None
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    _awaiting: dict[str, list[tuple[Sent | Delivered | Unsubscribed, bool]]] = field(
        default_factory=dict
    )
    """For each receipt, the facts that it decides and whether it answers an ABORT."""
    _transactions: dict[str, list[Sent]] = field(default_factory=dict)
    _went: set[str] = field(default_factory=set)
    _goodbye: When | None = None
    """When the client sent its DISCONNECT."""
    _opaque: bool = False
    _ended: bool = False
    _epochs: int = 0

    def read(self, row: Row) -> Iterator[Fact]:
        """Read one event; yield the facts that it establishes."""
        if self._ended:
            return
        if row.hides_bytes:
            if not self._opaque:
                self._opaque = True
                yield UnreadableConnection(self.conn)
        elif row.kind == "ConnectionAbandoned":
            yield from self.end(row.when)
        elif row.kind == "ConnectionClosed" or (
            row.kind == "FrameReceived" and row.command == "ERROR"
        ):
            yield from self.end((row.when[0] - FOREKNOWN, row.when[1]))
        elif row.kind == "FrameSent":
            yield from self._sent(row)
        elif row.kind == "FrameReceived" and row.command == "MESSAGE":
            yield from self._message(row)
        elif row.kind == "FrameReceived" and row.command == "RECEIPT":
            for fact, aborted in self._awaiting.pop(row.headers.get("receipt-id", ""), ()):
                yield _decided(fact, aborted)

    def end(self, when: When | None = None) -> Iterator[Fact]:
        """Yield every open fact in its current state, each once: the connection closed at ``when``,
        or the recording ended (None).

        A consumer that sent DISCONNECT is treated as gone from then on: the broker may deliver its
        messages to another consumer before the connection is closed.
        """
        self._ended = True
        left = min((at for at in (self._goodbye, when) if at is not None), default=None)
        for subscription in list(self.subscriptions.values()):
            yield from self._leave(subscription, left, failed=self._goodbye is None)
        for facts in self._awaiting.values():
            yield from (fact for fact, _ in facts)
        self._awaiting.clear()
        for sends in self._transactions.values():
            yield from sends
        self._transactions.clear()

    def _sent(self, row: Row) -> Iterator[Fact]:
        headers, receipt = row.headers, row.headers.get("receipt")
        match row.command:
            case "SEND" if row.key is not None and "destination" in headers:
                sent = Sent(
                    row.key,
                    headers["destination"],
                    self.conn,
                    row.when,
                    confirmed=False,
                    withdrawn=False,
                    anycast=anycast(headers),
                    strange=any(name.startswith(STRANGE) for name in headers),
                )
                if "transaction" in headers:
                    self._transactions.setdefault(headers["transaction"], []).append(sent)
                else:
                    yield from self._await(receipt, [sent])
            case "COMMIT" | "ABORT":
                sends = self._transactions.pop(headers.get("transaction", ""), [])
                yield from self._await(receipt, sends, aborted=row.command == "ABORT")
            case "SUBSCRIBE":
                yield from self._subscribe(row)
            case "UNSUBSCRIBE" if headers.get("id", "") in self.subscriptions:
                yield from self._leave(
                    self.subscriptions[headers.get("id", "")], row.when, receipt=receipt
                )
            case "ACK" | "NACK":
                yield from self._answered(row)
            case "DISCONNECT":
                self._goodbye = row.when

    def _await(
        self,
        receipt: str | None,
        facts: Sequence[Sent | Delivered | Unsubscribed],
        *,
        aborted: bool = False,
    ) -> Iterator[Fact]:
        if receipt is None:
            yield from facts
        else:
            self._awaiting.setdefault(receipt, []).extend((fact, aborted) for fact in facts)

    def _subscribe(self, row: Row) -> Iterator[Fact]:
        name = row.headers.get("id", "")
        if (
            name in self.subscriptions
        ):  # a second subscription of that name: the first one's held deliveries end here
            yield from self._leave(self.subscriptions[name], row.when)
        mode = row.headers.get("ack", "auto")
        window, unit = window_asked(row.headers, self.windows)
        self._epochs += 1
        self.subscriptions[name] = Subscription(
            f"{name}#{self._epochs}" if name in self._went else name,
            row.headers.get("destination", ""),
            mode,
            window if window is not None else self.window,
            unit,
            anycast(row.headers),
        )
        yield Subscribed(
            self.subscriptions[name].queue, self.conn, name, row.when, "selector" in row.headers
        )

    def _message(self, row: Row) -> Iterator[Fact]:
        name = row.headers.get("subscription")
        if name is None or row.key is None:
            return
        if name not in self.subscriptions:
            if name in self._went:  # the delivery was in flight when we unsubscribed
                return
            queue = row.headers.get("destination", "")
            if "" in self.subscriptions and self.subscriptions[""].queue == queue:
                # In 1.0 the client gave no id, so the broker generated one. Otherwise the recording
                # began after its SUBSCRIBE, so neither mode nor window is known.
                name = ""
            else:  # the recording began after its SUBSCRIBE: mode and window are unknown
                self.subscriptions[name] = Subscription(name, queue, None)
        subscription = self.subscriptions[name]
        delivery = Delivery(row.key, row.when, row.headers.get("redelivered") == "true", row.size)
        if subscription.mode == "auto":
            yield self._got(subscription, delivery, End.ASKED, row.when)
            return
        if subscription.window is not None and not self._opaque and not _open(subscription):
            yield Overrun(
                subscription.queue,
                self.conn,
                subscription.name,
                row.when,
                subscription.window,
                subscription.unit,
                len(subscription.held),
                subscription.held_bytes,
                row.size,
            )
        token = row.headers.get("ack", row.headers.get("message-id", ""))
        before = subscription.held.get(token)
        if (
            before is not None and before.key == delivery.key
        ):  # delivered again; an answer would concern the later delivery
            subscription.held_bytes -= before.size
            yield self._got(subscription, before, End.HELD, None)
        subscription.held[token] = delivery
        subscription.held_bytes += row.size

    def _got(
        self, subscription: Subscription, delivery: Delivery, end: End, ended: When | None
    ) -> Delivered:
        return Delivered(
            delivery.key,
            subscription.queue,
            self.conn,
            subscription.name,
            delivery.when,
            delivery.marked,
            end,
            ended,
            subscription.anycast,
        )

    def _answered(self, row: Row) -> Iterator[Fact]:
        token = row.headers.get("id", row.headers.get("message-id", ""))
        named = row.headers.get("subscription")
        for name, subscription in self.subscriptions.items():
            if token not in subscription.held or (named is not None and named != name):
                continue
            covered = [token] if subscription.mode != "client" else _up_to(subscription.held, token)
            end = End.REFUSED if row.command == "NACK" else End.ASKED
            if "transaction" in row.headers:
                end = End.TENTATIVE
            settled = []
            for ack_id in covered:
                delivery = subscription.held.pop(ack_id)
                subscription.held_bytes -= delivery.size
                settled.append(self._got(subscription, delivery, end, row.when))
            yield from self._await(row.headers.get("receipt"), settled)
            return

    def _leave(
        self,
        left: Subscription,
        when: When | None,
        *,
        failed: bool = False,
        receipt: str | None = None,
    ) -> Iterator[Fact]:
        name = next(
            name for name, subscription in self.subscriptions.items() if subscription is left
        )
        del self.subscriptions[name]
        self._went.add(name)
        end = End.HELD if when is None else End.LOST if failed else End.RETURNED
        for delivery in left.held.values():
            yield self._got(left, delivery, end, when)
        if when is not None:
            yield from self._await(
                receipt, [Unsubscribed(left.queue, self.conn, left.name, when, noticed=False)]
            )


def _up_to(held: Mapping[str, Delivery], token: str) -> list[str]:
    """Return the names of the held messages up to ``token``, in order."""
    covered = []
    for ack_id in held:
        covered.append(ack_id)
        if ack_id == token:
            break
    return covered


def _open(subscription: Subscription) -> bool:
    """Return True if the window lets one more delivery begin
    (:class:`brokerproof.harness.oracles.window.WindowAccount`, with a running sum)."""
    assert subscription.window is not None
    if subscription.window < 0:
        return True
    if subscription.window == 0:
        return not subscription.held
    return (
        subscription.held_bytes if subscription.unit == "octets" else len(subscription.held)
    ) < subscription.window


def _decided(fact: Sent | Delivered | Unsubscribed, aborted: bool) -> Fact:
    match fact:
        case Sent():
            return replace(fact, withdrawn=True) if aborted else replace(fact, confirmed=True)
        case Delivered(end=End.ASKED):
            return replace(fact, end=End.SETTLED)
        case Unsubscribed():
            return replace(fact, noticed=True)
    return fact


def anycast(headers: Mapping[str, str]) -> bool | None:
    """Return True for a queue, False for a topic, judged by the destination's headers or name; None
    if unknown."""
    routing = headers.get("destination-type", headers.get("subscription-type", ""))
    if routing:
        return routing == "ANYCAST"
    name = headers.get("destination", "")
    return True if name.startswith("/queue/") else False if name.startswith("/topic/") else None


def window_asked(headers: Mapping[str, str], counting: Mapping[str, str]) -> tuple[int | None, str]:
    """Return the window that a SUBSCRIBE names and its unit (``octets`` or ``messages``).

    ``counting`` has this family's window headers, each with its unit. The result is None if the
    frame names no numeric window.
    """
    for name, unit in counting.items():
        text = headers.get(name, "")
        if (count := whole_number(text.removeprefix("-"))) is not None:
            size = -count if text.startswith("-") else count
            return (-1 if unit == "messages" and size == 0 else size), unit
    return None, "octets"
