"""Frames of AMQP 1.0 for the protocol fuzzer."""

from collections.abc import Sequence
from random import Random
from typing import Any

from brokerproof.harness.protocols.amqp10 import codec as amqp10
from brokerproof.harness.protocols.amqp10 import tables as amqp10_tables
from brokerproof.harness.protocols.amqp10 import types as amqp10_types
from brokerproof.suites.fuzz.draws import SELECTORS, Memory, body, name, number

_STATES = ("accepted", "released", "rejected", "modified", "received", "transactional-state")
_ENDS = ("source", "source", "target", "target", "coordinator")
_LIKELY = (
    *("begin", "attach", "attach", "attach", "flow", "flow", "flow", "transfer", "transfer"),
    *("transfer", "transfer", "disposition", "disposition", "disposition", "detach"),
)
_WIDTHS = {"uint": 32, "ushort": 16, "ubyte": 8, "ulong": 64, "timestamp": 63}
_TXN = b"\0\0\0\0\0\0\0\1"


def value_of(random: Random, kind: str, field: str) -> Any:
    if kind in _WIDTHS:
        top = 2 if field.endswith("settle-mode") else 1 << _WIDTHS[kind]
        return min(number(random, _WIDTHS[kind]), top if top == 2 else top - 1)
    match kind:
        case "string":
            return name(random)[:60]
        case "symbol":
            return random.choice(("PLAIN", "ANONYMOUS", "EXTERNAL", "copy", "never", "amqp:x"))
        case "boolean" | "role":
            return random.random() < 0.5
        case "binary":
            return random.choice((b"t", b"", b"x" * 32, b"\0guest\0guest"))
        case "symbol*":
            return ("queue",) if field == "capabilities" and random.random() < 0.8 else ("topic",)
        case "error":
            return "amqp:internal-error"
        case "fields":
            if field == "filter":
                selector = amqp10_types.Described(
                    amqp10_types.symbol("apache.org:selector-filter:string"),
                    amqp10_types.string(random.choice(SELECTORS)),
                )
                return {"apache.org:selector-filter:string": selector}
            return {"a": "b"}
        case "map":
            return {b"t": None}
    match field:
        case "source" | "target":
            chosen = field if random.random() < 0.85 else random.choice(_ENDS)
            return composite_of(random, chosen)
        case "state" | "outcome" | "default-outcome":
            states = _STATES[:-1] if field == "outcome" else _STATES
            return composite_of(random, random.choice(states))
        case "txn-id":
            return random.choice((_TXN, _TXN[:-1] + b"\2", b"", b"x" * 40))
        case "global-id":
            return None
    return name(random)


def composite_of(random: Random, kind: str) -> amqp10_types.Described:
    fields = {}
    for entry in amqp10_tables.COMPOSITES[kind].fields:
        essential = entry.mandatory or entry.name in _ESSENTIAL_FIELDS
        if random.random() < (0.97 if essential else 0.12):
            fields[entry.name] = value_of(random, entry.type, entry.name)
    return amqp10.composite(kind, fields)


_ESSENTIAL_FIELDS = frozenset(
    (
        *("source", "target", "address", "handle", "link-credit", "delivery-id", "delivery-tag"),
        *("initial-delivery-count", "state", "last", "delivery-count", "capabilities", "closed"),
        *("message-format", "incoming-window", "outgoing-window"),
    )
)


def _payload(random: Random) -> bytes:
    chosen = random.random()
    if chosen < 0.15:
        inner = composite_of(random, random.choice(("declare", "discharge")))
        return b"\0\x53\x77" + amqp10_types.encode(inner)
    content = body(random)
    payload = b"\0\x53\x75\xb0" + len(content).to_bytes(4) + content
    if chosen < 0.4:
        section = random.choice(("header", "properties"))
        payload = amqp10_types.encode(composite_of(random, section)) + payload
    return payload


def frame(random: Random) -> bytes:
    chosen = random.random()
    channel = random.choice((0, 0, 0, 1)) if random.random() < 0.98 else number(random, 16)
    if chosen < 0.03:
        return amqp10.encode_frame(b"", channel=channel)
    if chosen < 0.06:
        kind = random.choice(("open", "end", "close", "sasl-init", "sasl-response"))
        code = 1 if kind.startswith("sasl") else 0
        performative = amqp10_types.encode(composite_of(random, kind))
        return amqp10.encode_frame(performative, channel=channel, type=code)
    kind = random.choice(_LIKELY)
    data = amqp10_types.encode(composite_of(random, kind))
    if kind == "transfer":
        data += _payload(random)
    return amqp10.encode_frame(data, channel=channel)


def sensible(random: Random, memory: Memory) -> bytes:
    """Attach links, send on them, grant credit and settle, with numbers that fit."""
    chosen = random.random()
    fields: dict[str, Any]
    if memory.under_way is not None and chosen < 0.8:
        more = random.random() < 0.4
        fields = {"handle": memory.under_way, "more": more, "aborted": random.random() < 0.1}
        memory.under_way = memory.under_way if more else None
        return framed(amqp10.composite("transfer", fields), b"x" * random.choice((1, 500, 3000)))
    if chosen < 0.15 or not (memory.senders or memory.receivers):
        return framed(_attach(random, memory))
    if chosen < 0.55 and (memory.senders or memory.coordinators):
        return _transfer(random, memory)
    if chosen < 0.75 and memory.receivers:
        fields = {
            "handle": random.choice(memory.receivers),
            "link_credit": random.choice((0, 1, 10, 1000)),
            "delivery_count": 0,
            "drain": random.random() < 0.2,
            "echo": random.random() < 0.2,
            "next_incoming_id": 0,
            "next_outgoing_id": 0,
            "incoming_window": random.choice((0, 1, 2**31)),
            "outgoing_window": 9,
        }
        return framed(amqp10.composite("flow", fields))
    if chosen < 0.97:
        first = random.randrange(memory.acknowledged + 1)
        memory.acknowledged += random.random() < 0.5
        fields = {
            "role": random.random() < 0.8,
            "first": first,
            "last": first + random.randrange(3),
            "settled": random.random() < 0.7,
            "state": composite_of(random, random.choice(_STATES)),
        }
        return framed(amqp10.composite("disposition", fields))
    handles = memory.senders + memory.receivers
    handle = random.choice(handles)
    for known in (memory.senders, memory.receivers):
        if handle in known:
            known.remove(handle)
    return framed(amqp10.composite("detach", handle=handle, closed=random.random() < 0.5))


def framed(performative: amqp10_types.Described, payload: bytes = b"") -> bytes:
    return amqp10.encode_frame(amqp10_types.encode(performative) + payload)


def _attach(random: Random, memory: Memory) -> amqp10_types.Described:
    handle = memory.next_handle
    memory.next_handle += 1
    fields: dict[str, Any] = {"name": f"l{handle}", "handle": handle}
    place = {"address": random.choice(("q", "t", "queue://q", "/queue/q", "topic://t"))}
    source = {**place, "capabilities": random.choice((("queue",), None))}
    if random.random() < 0.2:
        source["filter"] = value_of(random, "fields", "filter")
    kind = random.random()
    if kind < 0.45:
        memory.receivers.append(handle)
        modes = {"snd_settle_mode": random.randrange(3), "rcv_settle_mode": random.randrange(2)}
        return amqp10.composite(
            "attach",
            {**fields, **modes, "role": True, "source": amqp10.composite("source", source)},
            target=amqp10.composite("target"),
        )
    coordinates = kind > 0.85
    (memory.coordinators if coordinates else memory.senders).append(handle)
    target = "coordinator" if coordinates else "target"
    return amqp10.composite(
        "attach",
        {**fields, "role": False, "initial_delivery_count": 0},
        source=amqp10.composite("source"),
        target=amqp10.composite(target, {} if coordinates else place),
    )


def _transfer(random: Random, memory: Memory) -> bytes:
    controls = bool(memory.coordinators) and (not memory.senders or random.random() < 0.2)
    handle = random.choice(memory.coordinators if controls else memory.senders)
    more = not controls and random.random() < 0.2
    fields: dict[str, Any] = {
        "handle": handle,
        "delivery_id": memory.next_id,
        "delivery_tag": memory.next_id.to_bytes(4),
        "message_format": 0,
        "settled": not controls and random.random() < 0.3,
        "more": more,
    }
    if not controls and memory.coordinators and random.random() < 0.3:
        fields["state"] = amqp10.composite("transactional-state", txn_id=amqp10_types.binary(_TXN))
    memory.next_id += 1
    memory.under_way = handle if more else None
    if controls:
        kind = random.choice(("declare", "discharge"))
        inner = amqp10.composite(kind)
        if kind == "discharge":
            txn = amqp10_types.binary(random.choice((_TXN, _TXN[:-1] + b"\2")))
            inner = amqp10.composite(kind, txn_id=txn, fail=random.random() < 0.5)
        return framed(
            amqp10.composite("transfer", fields), b"\0\x53\x77" + amqp10_types.encode(inner)
        )
    content = body(random)
    header = amqp10_types.encode(amqp10.composite("header", durable=random.random() < 0.5))
    value = random.choice((b"\x75\xb0", b"\x77\xb1", b"\x77\xb0"))
    payload = header + b"\0\x53" + value + len(content).to_bytes(4) + content
    return framed(amqp10.composite("transfer", fields), payload)


def opening(random: Random) -> Sequence[bytes]:
    opened = amqp10.composite(
        "open", container_id="c", max_frame_size=random.choice((512, 4096, 2**32 - 1))
    )
    begun = amqp10.composite("begin", next_outgoing_id=0, incoming_window=2**31, outgoing_window=9)
    frames = [amqp10.encode_frame(amqp10_types.encode(item)) for item in (opened, begun)]
    plain = amqp10.composite("sasl-init", mechanism="PLAIN", initial_response=b"\0guest\0guest")
    login = amqp10.encode_frame(amqp10_types.encode(plain), type=1)
    header = amqp10.protocol_header()
    if random.random() < 0.5:
        return [amqp10.protocol_header(3), login, header, *frames]
    return [header, *frames]
