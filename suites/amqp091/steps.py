"""Steps shared by AMQP 0-9-1 cases."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from brokerproof.suites.api import (
    PATIENCE,
    Bench,
    ControlFailed,
    Duration,
    Requirements,
    Target,
    ms,
    seconds,
)
from brokerproof.suites.api.amqp091 import Amqp091Peer, Method, method

ARGUMENTS = "amqp091-arguments"
CONFIRMS = "amqp091-confirms"
CONSUMER_PREFETCH = "amqp091-consumer-prefetch"
EXCHANGE_BINDINGS = "amqp091-exchange-bindings"
NACK = "amqp091-nack"
QUORUM = "amqp091-quorum"
"""Capabilities: extensions that an AMQP 0-9-1 broker need not offer."""
QUIET: Duration = ms(300)
"""Wait this long for a surplus method after the last expected one."""
CHANNEL, CONNECTION, EXCEPTION = "channel", "connection", "exception"
"""What an exception closes. If the specification gives only a reply code (on-failure), either may
be closed: channel exceptions are "usually" due to soft errors (4.8.1)."""


def offers(target: Target, extension: str) -> bool:
    return extension in target.identity.capabilities


def settling(target: Target, ways: Sequence[str]) -> list[str]:
    """Return those of ``ways`` by which this broker settles deliveries ("nack" is an extension)."""
    return [way for way in ways if offers(target, NACK) or "nack" not in way]


def queue_of(peer: Amqp091Peer, *, channel: int = 1, **fields: Any) -> str:
    """Declare a queue that is exclusive to the peer's connection; return its name."""
    return str(peer.declare(channel=channel, **{"exclusive": True, **fields})["queue"])


@dataclass(frozen=True)
class Kind:
    """A type of queue, whether its client names it, and the delivery-mode of its messages (None:
    absent). The same requirements apply to all."""

    type: str = "classic"
    is_named: bool = False
    mode: int | None = None

    def __str__(self) -> str:
        return self.type

    @property
    def keeps_places(self) -> bool:
        """True if requeued messages return to their place. A quorum queue delivers them first, in
        the order in which they returned."""
        return self.type == "classic"

    @staticmethod
    def each(target: Target) -> "list[Kind]":
        return [Kind(), *([Kind("quorum", mode=2)] if offers(target, QUORUM) else [])]

    @staticmethod
    def any(target: Target) -> "st.SearchStrategy[Kind]":
        types = st.sampled_from([kind.type for kind in Kind.each(target)])
        return st.tuples(types, CLASSIC).map(lambda drawn: replace(drawn[1], type=drawn[0]))

    def queue(
        self,
        target: Bench,
        peer: Amqp091Peer,
        arguments: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> str:
        """Declare a queue to which ``peer`` sends; return its name. A quorum queue is durable and
        named by its client, and cannot be exclusive, so it expires."""
        peer.properties = {} if self.mode is None else {"delivery-mode": self.mode}
        own = dict(arguments or {})
        if self.is_named or self.type == "quorum":
            fields["queue"] = target.fresh_name()
        if self.mode == 2:
            fields["durable"] = True
        if self.type == "quorum":
            many = {"x-delivery-limit": 10_000, "x-expires": 60_000}
            own = {"x-queue-type": self.type, **many, **own}
            fields |= {"durable": True, "exclusive": False}
        return queue_of(peer, arguments=own, **fields)


CLASSIC = st.builds(Kind, is_named=st.booleans(), mode=st.sampled_from([None, 1, 2]))


def exchange_of(
    target: Bench, peer: Amqp091Peer, kind: str, *, channel: int = 1, **fields: Any
) -> str:
    """Declare an exchange that is deleted with its last binding; return the exchange's name."""
    name = target.fresh_name()
    declaration = {"exchange": name, "type": kind, "auto-delete": True, **fields}
    peer.call("exchange.declare", declaration, channel=channel)
    return name


def bind(
    peer: Amqp091Peer, queue: str, exchange: str, key: str = "", *, channel: int = 1, **fields: Any
) -> None:
    peer.call(
        "queue.bind",
        {"queue": queue, "exchange": exchange, "routing-key": key, **fields},
        channel=channel,
    )


def fill(peer: Amqp091Peer, queue: str, bodies: Iterable[bytes], *, channel: int = 1) -> None:
    """Publish to the queue and wait until it holds all messages."""
    bodies = list(bodies)
    before = peer.count(queue, channel=channel)
    for body in bodies:
        peer.publish(body, queue, channel=channel)
    holds(peer, queue, before + len(bodies), channel=channel)


def holds(peer: Amqp091Peer, queue: str, count: int, *, channel: int = 1) -> None:
    """Control: ``count`` messages wait in the queue, now or soon."""
    if not eventually(peer, lambda: peer.count(queue, channel=channel) == count):
        raise ControlFailed(
            f"{count} messages should wait in {queue}; there are"
            f" {peer.count(queue, channel=channel)}"
        )


def eventually(peer: Amqp091Peer, question: Any, within: Duration = PATIENCE) -> bool:
    """Ask until the answer is true, because the broker may still be busy; return the last
    answer."""
    until = peer.world.now() + within
    while not question():
        if peer.world.now() >= until:
            return False
        peer.world.wait_until(lambda: False, peer.world.now() + ms(20))
    return True


def arrive(
    peer: Amqp091Peer, count: int, *, channel: int = 1, quiet: Duration = QUIET
) -> list[Method]:
    """Return the next ``count`` deliveries on a channel (fewer if they are late), and any that
    arrive within ``quiet`` after them."""
    match_delivery = method("basic.deliver", channel=channel)

    def here() -> int:
        return sum(match_delivery.accepts(reply) for reply in peer.inbox)

    peer.world.wait_until(
        lambda: here() >= count or peer.ended is not None, peer.world.now() + PATIENCE
    )
    peer.world.wait_until(lambda: peer.ended is not None, peer.world.now() + quiet)
    return peer.deliveries(channel)


def drained(peer: Amqp091Peer, queue: str, *, channel: int = 1) -> list[Method]:
    """Get all messages waiting in a queue, one by one, without acknowledging them."""
    messages = []
    while (answer := peer.get(queue, channel=channel, no_ack=True)).name == "basic.get-ok":
        messages.append(answer)
    return messages


def bodies(methods: Sequence[Method]) -> list[bytes]:
    return [delivery.body for delivery in methods]


def others_work(target: Bench) -> None:
    """Control: a new connection publishes and gets."""
    peer = target.amqp091()
    queue = queue_of(peer)
    fill(peer, queue, [b"still here"])
    target.control(
        bodies(drained(peer, queue)) == [b"still here"], "another connection should work as before"
    )
    peer.close()


def never_opens(target: Bench, peer: Amqp091Peer, proves: Requirements, what: str) -> None:
    """Judge whether the connection ends without open-ok, with or without connection.close. Brokers
    limit a handshake to ten seconds (RabbitMQ's handshake_timeout) and then end it anyway."""
    longer = PATIENCE + seconds(5)
    closed = target.wait_until(lambda: peer.ended is not None or _connection_closed(peer), longer)
    opened = any(reply.name == "connection.open-ok" for reply in peer.inbox)
    target.record_finding(proves, closed and not opened, f"{what}: {peer.instead()}")


def _connection_closed(peer: Amqp091Peer) -> bool:
    return any(reply.name == "connection.close" for reply in peer.inbox)


def record_close(target: Bench, peer: Amqp091Peer, behaviour: str) -> None:
    """Record the close that answers the last method sent, and keep it in the inbox."""

    def closes() -> list[str]:
        names = ("channel.close", "connection.close")
        return [
            f"{reply.name} {reply['reply-code']}" for reply in peer.inbox if reply.name in names
        ]

    target.wait_until(lambda: peer.ended is not None or bool(closes()), PATIENCE)
    for answer in closes():
        target.record_behaviour(behaviour, answer)
