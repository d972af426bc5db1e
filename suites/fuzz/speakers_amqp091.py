"""Frames of AMQP 0-9-1 for the protocol fuzzer."""

import re
from collections.abc import Sequence
from random import Random
from typing import Any

from brokerproof.harness.protocols.amqp091 import codec as amqp091
from brokerproof.harness.protocols.amqp091 import tables as amqp091_tables
from brokerproof.suites.fuzz.draws import Memory, body, name, number

_METHODS = tuple(
    method
    for method in amqp091_tables.BY_NAME
    if not method.endswith("-ok") and method.partition(".")[0] != "connection"
)
_OFTEN = (
    *("basic.publish", "basic.publish", "basic.consume", "basic.ack", "basic.nack", "basic.get"),
    *("queue.declare", "basic.qos", "tx.select", "tx.commit", "confirm.select", "channel.open"),
)
_ARGUMENTS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {"x-max-length": 2},
    {"x-overflow": b"reject-publish"},
    {"x-dead-letter-exchange": b"", "x-dead-letter-routing-key": b"q"},
    {"x-message-ttl": 5},
    {"x-priority": 3},
    {"a": {"b": {"c": 1}}},
)


def _value(random: Random, kind: str, field: str) -> Any:
    match kind:
        case "bit":
            return random.random() < 0.3
        case "octet" | "short" | "long" | "longlong" | "timestamp":
            bits = {"octet": 8, "short": 16, "long": 32}.get(kind, 64)
            return number(random, bits)
        case "table":
            return random.choice(_ARGUMENTS)
        case "longstr":
            return random.choice((b"", b"\0guest\0guest", b"x" * 300))
    if field == "type":
        return random.choice(("direct", "fanout", "topic", "headers", "x"))
    if field in ("exchange", "source") and random.random() < 0.6:
        return random.choice(("", "amq.direct", "amq.fanout", "amq.topic", "amq.headers", "x"))
    return name(random).encode("utf-8", "replace")[:200].decode("utf-8", "ignore")


def frame(random: Random) -> bytes:
    channel = random.choice((1, 1, 1, 2)) if random.random() < 0.97 else number(random, 16)
    chosen = random.random()
    if chosen < 0.03:
        return amqp091.encode_frame(amqp091.HEARTBEAT, 0)
    if chosen < 0.08:
        kind = random.choice((amqp091.HEADER, amqp091.BODY))
        return amqp091.encode_frame(kind, channel, random.randbytes(random.choice((0, 1, 14, 60))))
    if chosen < 0.1:
        method = random.choice(tuple(amqp091_tables.BY_NAME))
        channel = 0 if method.startswith("connection") else channel
    else:
        method = random.choice(_OFTEN if random.random() < 0.7 else _METHODS)
    data = method_frame(random, method, channel)
    if method == "basic.publish" and random.random() < 0.95:
        properties = {
            field: _value(random, kind, field)
            for field, kind in amqp091_tables.PROPERTIES
            if random.random() < 0.1
        }
        data += amqp091.encode_content(channel, body(random), properties)
    return data


def method_frame(random: Random, method: str, channel: int) -> bytes:
    """Return a method of this name with drawn fields."""
    fields = {
        field: _value(random, kind, field)
        for field, kind in amqp091_tables.BY_NAME[method].fields
        if random.random() < 0.9 and not field.startswith("reserved")
    }
    return amqp091.encode_frame(amqp091.METHOD, channel, amqp091.encode_method(method, fields))


_DELIVER = re.compile(rb"\x01(..)....\0\x3c\0(?:\x3c(.)|\x47)", re.DOTALL)


def sensible(random: Random, memory: Memory) -> bytes:
    """Publish, consume, and settle what was delivered."""
    channel = random.choice(memory.channels)
    called = random.choice(_AMQP091_SENSIBLE)
    fields: dict[str, Any] = {}
    match called:
        case "channel.open":
            channel = max(memory.channels) + 1
            memory.channels.append(channel)
        case "channel.close" if len(memory.channels) > 1:
            memory.channels.remove(channel)
        case "channel.close":
            called = "basic.recover"
        case "basic.consume":
            memory.next_id += 1
            tag = str(memory.next_id)
            fields = {"queue": "q", "consumer-tag": tag, "no-ack": random.random() < 0.3}
        case "basic.cancel":
            fields = {"consumer-tag": str(random.randrange(memory.next_id + 1))}
        case "basic.get" | "queue.purge":
            fields = {"queue": "q"}
        case "basic.qos":
            fields = {"prefetch-count": random.randrange(4), "global": random.random() < 0.5}
        case "queue.bind":
            exchange = random.choice(("amq.direct", "amq.fanout", "amq.topic", "amq.headers"))
            fields = {"queue": "q", "exchange": exchange, "routing-key": random.choice(("q", "#"))}
        case "basic.ack" | "basic.nack" | "basic.reject":
            tag_at = _DELIVER.search(memory.received)
            if tag_at is None:
                called = "basic.recover"
                fields = {"requeue": True}
            else:
                at = tag_at.end() + (tag_at[2][0] if tag_at[2] else 0)
                channel = int.from_bytes(tag_at[1])
                fields = {"delivery-tag": int.from_bytes(memory.received[at : at + 8])}
                if called != "basic.ack":
                    fields["requeue"] = random.random() < 0.5
                memory.received = memory.received[at:]
        case "basic.publish":
            exchange = random.choice(("", "", "amq.direct", "amq.fanout", "amq.topic"))
            fields = {"exchange": exchange, "routing-key": "q", "mandatory": random.random() < 0.2}
    data = amqp091.encode_frame(amqp091.METHOD, channel, amqp091.encode_method(called, fields))
    if called == "basic.publish":
        properties = {"delivery-mode": random.choice((1, 2)), "expiration": "50"}
        content = body(random)
        data += amqp091.encode_content(channel, content, properties, frame_max=4096)
    return data


_AMQP091_SENSIBLE = (
    *("basic.publish", "basic.publish", "basic.publish", "basic.ack", "basic.ack", "basic.nack"),
    *("basic.consume", "basic.consume", "basic.cancel", "basic.get", "basic.qos", "tx.select"),
    *("tx.commit", "tx.rollback", "confirm.select", "channel.open", "queue.bind", "queue.purge"),
    *("basic.reject", "channel.close"),
)


def opening(random: Random) -> Sequence[bytes]:
    def method(called: str, fields: dict[str, Any], channel: int = 0) -> bytes:
        encoded = amqp091.encode_method(called, fields)
        return amqp091.encode_frame(amqp091.METHOD, channel, encoded)

    capabilities = {"capabilities": {"authentication_failure_close": True}}
    passcode = b"guest" if random.random() < 0.95 else b"wrong"
    login = {
        "mechanism": "PLAIN",
        "response": b"\0guest\0" + passcode,
        "client-properties": capabilities,
    }
    tune = {"channel-max": 2047, "frame-max": 131072, "heartbeat": random.choice((0, 1, 60))}
    return [
        amqp091.protocol_header(),
        method("connection.start-ok", login),
        method("connection.tune-ok", tune),
        method("connection.open", {"virtual-host": "/"}),
        method("channel.open", {}, 1),
        method("queue.declare", {"queue": "q"}, 1),
    ]
