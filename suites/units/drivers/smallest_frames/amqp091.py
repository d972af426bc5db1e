"""Smallest frames of AMQP 0-9-1."""

from collections.abc import Iterator
from typing import Any

from brokerproof.harness.protocols.amqp091 import codec as amqp091_codec
from brokerproof.reference_broker.config.rabbitmq import rabbitmq_conf
from brokerproof.suites.units.drivers.smallest_frames.feed import SCENARIOS, Feed, scenario


def method(name: str, fields: dict[str, Any] | None = None, channel: int = 1) -> bytes:
    encoded = amqp091_codec.encode_method(name, fields)
    return amqp091_codec.encode_frame(amqp091_codec.METHOD, channel, encoded)


def rabbitmq(*frames: bytes) -> Feed:
    feed = Feed(rabbitmq_conf.default(), "amqp")
    login = {"mechanism": "PLAIN", "response": b"\0guest\0guest", "client-properties": {}}
    tune = {"channel-max": 2047, "frame-max": 131072, "heartbeat": 0}
    feed.send(amqp091_codec.protocol_header(), method("connection.start-ok", login, 0))
    feed.send(method("connection.tune-ok", tune, 0))
    feed.send(method("connection.open", {"virtual-host": "/"}, 0), method("channel.open"))
    feed.send(method("queue.declare", {"queue": "q"}), *frames)
    return feed


def publish(key: str = "q", exchange: str = "") -> bytes:
    return method("basic.publish", {"exchange": exchange, "routing-key": key}) + (
        amqp091_codec.encode_content(1, b"", {})
    )


def rabbitmq_unacked(count: int, *frames: bytes) -> Feed:
    feed = rabbitmq(*frames, method("basic.consume", {"queue": "q"}))
    feed.send(publish() * count)
    return feed


def acks(tags: Iterator[int] | range, **fields: Any) -> Iterator[bytes]:
    return (method("basic.ack", {"delivery-tag": tag, **fields}) for tag in tags)


def _content_of(size: int) -> bytes:
    header = amqp091_codec.encode_content_header(size, {})
    return method("basic.publish", {"routing-key": "q"}) + amqp091_codec.encode_frame(
        amqp091_codec.HEADER, 1, header
    )


@scenario("AMQP 0-9-1: body frames of one byte")
def rabbitmq_bodies(n: int) -> Feed:
    body = amqp091_codec.encode_frame(amqp091_codec.BODY, 1, b"x")
    return rabbitmq(_content_of(n + 1)).measure(body * n)


@scenario("AMQP 0-9-1: empty body frames")
def rabbitmq_empty_bodies(n: int) -> Feed:
    body = amqp091_codec.encode_frame(amqp091_codec.BODY, 1, b"")
    return rabbitmq(_content_of(1)).measure(body * n)


def _bindings(n: int, exchange: str, name: str = "queue.bind") -> Iterator[bytes]:
    return (
        method(name, {"queue": "q", "exchange": exchange, "routing-key": f"{number}.a"})
        for number in range(n)
    )


@scenario("AMQP 0-9-1: queue.declare, then queue.delete, all bound")
def rabbitmq_queues(n: int) -> Feed:
    names = [f"q{number}" for number in range(n)]
    feed = rabbitmq().measure(
        method("queue.declare", {"queue": name})
        + method("queue.bind", {"queue": name, "exchange": "amq.fanout"})
        for name in names
    )
    return feed.measure(method("queue.delete", {"queue": name}) for name in names)


@scenario("AMQP 0-9-1: exchange.declare, then exchange.delete")
def rabbitmq_exchanges(n: int) -> Feed:
    names = [f"x{number}" for number in range(n)]
    feed = rabbitmq().measure(
        method("exchange.declare", {"exchange": name, "type": "topic"}) for name in names
    )
    return feed.measure(method("exchange.delete", {"exchange": name}) for name in names)


def _consume(number: int) -> bytes:
    return method("basic.consume", {"queue": "q", "consumer-tag": str(number)})


@scenario("AMQP 0-9-1: basic.ack of each, a limit for the channel and many consumers")
def rabbitmq_limited(n: int) -> Feed:
    limit = method("basic.qos", {"prefetch-count": 2 * n, "global": True})
    feed = rabbitmq_unacked(n, limit, *(_consume(number) for number in range(n)))
    return feed.measure(acks(range(1, n + 1)))


@scenario("AMQP 0-9-1: tx.rollback of one of many")
def rabbitmq_rollbacks(n: int) -> Feed:
    feed = rabbitmq_unacked(n, method("tx.select"), *())
    feed.send(method("tx.commit"))
    undone = method("basic.ack", {"delivery-tag": n // 2}) + method("tx.rollback")
    return feed.measure(undone * n)


SCENARIOS.update(
    {
        "AMQP 0-9-1: heartbeats": lambda n: rabbitmq().measure(b"\x08\0\0\0\0\0\0\xce" * n),
        "AMQP 0-9-1: basic.publish, byte by byte": lambda n: rabbitmq().measure(
            publish() * (n // 8), piece=1
        ),
        "AMQP 0-9-1: basic.publish without consumers": lambda n: rabbitmq().measure(publish() * n),
        "AMQP 0-9-1: basic.publish in confirm mode": lambda n: rabbitmq(
            method("confirm.select")
        ).measure(publish() * n),
        "AMQP 0-9-1: basic.publish to a direct exchange with many bindings": lambda n: rabbitmq(
            *_bindings(n, "amq.direct")
        ).measure(publish("none", "amq.direct") * n),
        "AMQP 0-9-1: basic.publish to a topic exchange with many bindings": lambda n: rabbitmq(
            *_bindings(n, "amq.topic")
        ).measure(publish("none", "amq.topic") * n),
        "AMQP 0-9-1: queue.bind, then queue.unbind": lambda n: (
            rabbitmq()
            .measure(_bindings(n, "amq.topic"))
            .measure(_bindings(n, "amq.topic", "queue.unbind"))
        ),
        "AMQP 0-9-1: basic.get of an empty queue with many consumers": lambda n: rabbitmq(
            *(_consume(number) for number in range(n))
        ).measure(method("basic.get", {"queue": "q"}) * n),
        "AMQP 0-9-1: basic.get": lambda n: rabbitmq(publish() * n).measure(
            method("basic.get", {"queue": "q"}) * n
        ),
        "AMQP 0-9-1: basic.consume, then basic.cancel": lambda n: (
            rabbitmq()
            .measure(_consume(number) for number in range(n))
            .measure(method("basic.cancel", {"consumer-tag": str(at)}) for at in range(n))
        ),
        "AMQP 0-9-1: basic.ack of each, the oldest first": lambda n: rabbitmq_unacked(n).measure(
            acks(range(1, n + 1))
        ),
        "AMQP 0-9-1: basic.ack of each, the newest first": lambda n: rabbitmq_unacked(n).measure(
            acks(range(n, 0, -1))
        ),
        "AMQP 0-9-1: basic.ack, multiple, of each": lambda n: rabbitmq_unacked(n).measure(
            acks(range(1, n + 1), multiple=True)
        ),
        "AMQP 0-9-1: basic.nack of each with requeue": lambda n: rabbitmq_unacked(n).measure(
            method("basic.nack", {"delivery-tag": tag, "requeue": True}) for tag in range(1, n + 1)
        ),
        "AMQP 0-9-1: basic.nack of each with requeue, no consumer left": lambda n: rabbitmq(
            publish() * n, method("basic.get", {"queue": "q"}) * n
        ).measure(
            method("basic.nack", {"delivery-tag": tag, "requeue": True}) for tag in range(1, n + 1)
        ),
        "AMQP 0-9-1: basic.publish in a transaction, then tx.commit": lambda n: rabbitmq(
            method("tx.select")
        ).measure(publish() * n + method("tx.commit")),
        "AMQP 0-9-1: channel.open and channel.close in turn": lambda n: rabbitmq().measure(
            (method("channel.open", {}, 2) + method("channel.close", {}, 2)) * n
        ),
        "AMQP 0-9-1: channel.flow and basic.qos with many consumers": lambda n: rabbitmq(
            *(_consume(number) for number in range(n))
        ).measure(
            (method("channel.flow", {"active": True}) + method("basic.qos", {"prefetch-count": 1}))
            * n
        ),
    }
)
