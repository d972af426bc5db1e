"""An accepted message arrives over each protocol of a broker, whatever its headers contain.

So does a plain message sent after it. A value of one protocol may be unknown to another, or
resemble one of the broker's own values.
"""

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from brokerproof.suites.amqp091.steps import CONFIRMS
from brokerproof.suites.api import PATIENCE, Bench, ControlFailed, Target, case
from brokerproof.suites.api.amqp091 import Typed
from brokerproof.suites.api.amqp10 import Array, Value, symbol, uint
from brokerproof.suites.conversion.protocol_pairs import Queue, queue
from brokerproof.suites.steps.queue_clients import CLIENTS, QueueClient
from brokerproof.suites.stomp.test_message_frames import (
    ACKNOWLEDGED_BY,
    BY_SUBSCRIPTION,
    DESTINATION,
    UNIQUE_MESSAGE_ID,
)

BY_STOMP, BY_AMQP, BY_AMQP091 = "STOMP12-SUB-02", "AMQP10-NODE-03", "AMQP091-QUEUE-13"
BY_OPENWIRE, BY_CORE = "OPENWIRE-MSGACK-2", "ARTEMIS-CONCEPTS-queue-1"
ODD, PLAIN = b"an odd message", b"a plain message"
NAMES = {
    "stomp": "STOMP",
    "amqp": "AMQP 1.0",
    "amqp091": "AMQP 0-9-1",
    "openwire": "OpenWire",
    "core": "CORE",
}

OTHERS = ("message-id", "subscription", "destination", "ack", "x-death", "a:b\n")
"""Names of headers that have a meaning of their own in a broker or in another protocol."""
OWN = ("_AMQ_INGRESS_TIMESTAMP", "_AMQ_SCHED_DELIVERY", "JMSXDeliveryCount", "x-delay", "CC")
_NUMBERS = {
    **{"ubyte": 2**8 - 1, "ushort": 2**16 - 1, "uint": 2**32 - 1, "ulong": 2**64 - 1},
    **{"byte": -(2**7), "short": -(2**15), "int": -(2**31), "long": -(2**63)},
    **{"float": math.nan, "double": math.inf, "timestamp": -1, "char": 0x1F600, "boolean": True},
    **{f"decimal{bits}": bytes(bits // 8) for bits in (32, 64, 128)},
    **{"null": None, "uuid": UUID(int=1), "binary": b"b", "symbol": "word"},
}
SIMPLE = {kind: Value(kind, value) for kind, value in _NUMBERS.items()}
"""A value of each simple type of AMQP 1.0."""
COMPOUND = {
    **{f"list of {kind}": Value("list", (item,)) for kind, item in SIMPLE.items()},
    "map of uint": Value("map", ((uint(1), uint(1)),)),
    "array of symbol": Array(0xA3, (symbol("word"),)),
}
TEXT = symbol("text/plain; charset=utf-8")
IDS = (SIMPLE["ulong"], SIMPLE["uuid"], SIMPLE["binary"], Value("string", "i" * 256))
FIELDS = {
    **{"b": -(2**7), "B": 2**8 - 1, "s": -(2**15), "u": 2**16 - 1, "i": 2**32 - 1, "l": -(2**63)},
    **{"I": -(2**31), "f": math.inf, "d": math.nan, "D": (255, 2**32 - 1), "T": 2**64 - 1},
    **{"t": True, "V": None, "x": b"b", "S": b"b", "F": {"k": 1}, "A": [Typed("D", (1, 1))]},
}
"""A value of each type that an AMQP 0-9-1 table field may have."""

Values = Mapping[str, Any]
_ODDITIES: Mapping[str, Mapping[str, Values]] = {
    "stomp": {
        **{f"é as {name}": {name: "é"} for name in ("correlation-id", "content-type", "type")},
        **{f"{name!r} of another protocol": {name: "1"} for name in OTHERS},
        **{f"{name!r} of a broker": {name: "x"} for name in OWN},
    },
    "amqp": {
        **{
            f"an application property of type {kind}": {"application_properties": {"own": value}}
            for kind, value in SIMPLE.items()
        },
        **{
            f"an annotation of type {kind}": {"message_annotations": {"x-opt-own": value}}
            for kind, value in (SIMPLE | COMPOUND).items()
        },
        **{
            f"the application property {name[:20]!r}": {
                "application_properties": {name: "1"},
                "properties": {"content-type": TEXT},
            }
            for name in (*OTHERS, "content-length", "n" * 256)
        },
        **{
            f"a {name} of type {id.type}": {"properties": {name: id}}
            for name in ("message-id", "correlation-id")
            for id in IDS
        },
        **{
            f"a long content-{of}": {"properties": {f"content-{of}": symbol("c" * 256)}}
            for of in ("type", "encoding")
        },
        "a creation-time before 1970": {"properties": {"creation-time": Value("timestamp", -1)}},
        "the greatest group-sequence": {"properties": {"group-sequence": uint(2**32 - 1)}},
        "the greatest ttl": {"header": {"priority": Value("ubyte", 255), "ttl": uint(2**32 - 1)}},
    },
    "amqp091": {
        **{
            f"a header of type {letter}": {"headers": {"own": Typed(letter, value)}}
            for letter, value in FIELDS.items()
        },
        **{
            f"the header {name!r}": {"headers": {name: Typed("S", b"1")}}
            for name in (*OTHERS, "content-length")
        },
        **{f"{name} 255": {name: 255} for name in ("priority", "delivery-mode")},
        "the greatest timestamp": {"timestamp": 2**64 - 1},
        "type amqp-1.0": {"type": "amqp-1.0"},
    },
}
MESSAGES = {
    f"{NAMES[sender]} with {what}": (sender, values)
    for sender, messages in _ODDITIES.items()
    for what, values in messages.items()
}
"""The protocol that sends a message, and its headers, properties and sections."""


def senders_for(target: Target, receiver: str) -> frozenset[str]:
    """The protocols whose messages reach a queue from which ``receiver`` consumes."""
    offered = target.identity.capabilities
    return offered & (offered if offered & {"crossing", "amqp091"} else {receiver})


def messages_for(target: Target, receiver: str) -> list[str]:
    """The names of MESSAGES for a queue from which ``receiver`` consumes."""
    senders = senders_for(target, receiver)
    return [name for name, (sender, _) in MESSAGES.items() if sender in senders]


def through_a_queue(
    target: Bench,
    of: Queue,
    receiver: str,
    sender: str,
    values: Values,
    version: str = "1.2",
    copies: int = 1,
) -> tuple[QueueClient, bool]:
    """Send a message with ``values`` and then a plain message to a queue. Return the queue's
    consumer, and whether the broker accepted all ``copies`` of the first message. STOMP is spoken
    in ``version``."""
    options: dict[str, Values] = {"amqp": {"node": of.node}, "stomp": {"version": version}}
    consumer, producer = (
        CLIENTS[name](target, of.name, **options.get(name, {})) for name in (receiver, sender)
    )
    consumer.join()
    producer.fields = values
    try:
        for _ in range(copies):
            producer.send([ODD])
    except ControlFailed:
        return consumer, False
    producer.fields = {}
    producer.send([PLAIN])
    producer.peer.close_socket()
    return consumer, True


def arrived(receiver: str, consumer: QueueClient) -> int:
    """Return how many of the two messages have arrived completely."""
    if receiver != "stomp":
        return consumer.waiting_here()
    bodies = [message.body for message in consumer.peer.inbox if message.command == "MESSAGE"]
    return sum(any(sent in body for sent in (ODD, PLAIN)) for body in bodies)


def all_arrived_or_failed(receiver: str, consumers: Iterable[QueueClient], count: int = 2) -> bool:
    return all(
        arrived(receiver, one) >= count
        or one.peer.ended is not None
        or any(map(one.peer.fatal, one.peer.inbox))
        for one in consumers
    )


def judge(target: Bench, receiver: str, arrives: str) -> None:
    """Judge whether every message that the broker accepts reaches ``receiver``, and so does a plain
    message sent after it. Control: plain messages alone arrive."""
    names = messages_for(target.target, receiver)
    owner = target.amqp091() if "amqp091" in target.capabilities else None
    for sender in dict.fromkeys(MESSAGES[name][0] for name in names):
        consumer, _ = through_a_queue(target, queue(target, owner), receiver, sender, {})
        count = len(consumer.receive(2))
        target.control(count == 2, f"{count} of 2 plain messages over {sender} arrived")
    # All are in flight together, because each one that never arrives costs a whole wait.
    consumers = {
        name: through_a_queue(target, queue(target, owner), receiver, *MESSAGES[name])
        for name in names
    }
    waiting = {name: consumer for name, (consumer, is_taken) in consumers.items() if is_taken}
    target.wait_until(partial(all_arrived_or_failed, receiver, waiting.values()), PATIENCE)
    missing = [name for name, one in waiting.items() if arrived(receiver, one) < 2]
    for consumer, _ in consumers.values():
        consumer.peer.close_socket()
    target.record_finding(
        arrives,
        not missing,
        f"{len(missing)} of {len(waiting)} messages with unusual values, or the plain messages sent"
        f" after them, did not arrive over {NAMES[receiver]}: {by_place(missing) or 'none'}",
    )


def by_place(names: Iterable[str]) -> str:
    """List names of MESSAGES; names that differ only in the type share an entry."""
    types: dict[str, list[str]] = {}
    for name in names:
        place, _, kind = name.partition(" of type ")
        types.setdefault(place, []).append(kind)
    return "; ".join(
        f"{place} of type {', '.join(kinds)}" if kinds[0] else place
        for place, kinds in types.items()
    )


@case(BY_STOMP, needs={"stomp-1.2"})
def test_any_message_reaches_a_stomp_consumer(target: Bench) -> None:
    """A message has a value of any type in a header or property, or a name that STOMP uses. It is
    refused, or arrives over STOMP, followed by the plain message."""
    judge(target, "stomp", BY_STOMP)


@case(BY_AMQP, needs={"stomp-1.2", "amqp"})
def test_any_message_reaches_an_amqp_consumer(target: Bench) -> None:
    """A message with a value of any type is refused, or arrives over AMQP 1.0."""
    judge(target, "amqp", BY_AMQP)


@case(BY_AMQP091, needs={"stomp-1.2", "amqp091", CONFIRMS})
def test_any_message_reaches_an_amqp091_consumer(target: Bench) -> None:
    """A message with a value of any type is refused, or arrives over AMQP 0-9-1."""
    judge(target, "amqp091", BY_AMQP091)


@case(BY_OPENWIRE, needs={"stomp-1.2", "openwire", "crossing"})
def test_any_message_reaches_an_openwire_consumer(target: Bench) -> None:
    """A message with a value of any type is refused, or arrives over OpenWire."""
    judge(target, "openwire", BY_OPENWIRE)


@case(BY_CORE, needs={"stomp-1.2", "core", "crossing"})
def test_any_message_reaches_a_core_consumer(target: Bench) -> None:
    """A message with a value of any type is refused, or arrives over CORE."""
    judge(target, "core", BY_CORE)


OURS = ("destination", "message-id", "subscription", "ack")
"""Headers of MESSAGE that the server sets."""
INTERNAL = (
    *("_AMQ_PREFIX", "_AMQ_ORIG_ADDRESS", "_AMQ_ORIG_QUEUE", "_AMQ_AD", "JMSDestination"),
    *("JMSMessageID", "original-destination", "amqp-message-id"),
)
MARK = "mark:a\nb"
ESCAPED = {"1.1": "STOMP11-ENC-02", "1.2": "STOMP12-ENC-02"}
SET_BY_SERVER = (DESTINATION, UNIQUE_MESSAGE_ID, BY_SUBSCRIPTION, ACKNOWLEDGED_BY, ESCAPED)
PLACES = {"stomp": "", "amqp": "application_properties", "amqp091": "headers", "openwire": ""}
"""By protocol, the places where messages have properties. STOMP and OpenWire have only one."""


@case(*SET_BY_SERVER, needs={"anycast", "stomp"})
def test_no_property_takes_the_place_of_the_servers_headers(target: Bench, version: str) -> None:
    """Messages of each protocol have a property with the name of a header that the server sets, a
    name that brokers use internally, or one with a colon and a line end. Each is sent twice, and a
    plain one follows. The server's headers are as in the plain MESSAGE, and the line end starts no
    new line. One scenario: the requirements describe one frame."""
    owner = target.amqp091() if "amqp091" in target.capabilities else None
    consumers: dict[str, QueueClient] = {}
    for sender in [name for name in PLACES if name in senders_for(target.target, "stomp")]:
        for name in INTERNAL if sender == "stomp" else (*OURS, MARK, *INTERNAL):
            place, forged = PLACES[sender], {name: "forged"}
            values: Values = {place: forged} if place else forged
            to = queue(target, owner)
            consumer, is_taken = through_a_queue(target, to, "stomp", sender, values, version, 2)
            if is_taken:
                consumers[f"{NAMES[sender]} with {name!r}"] = consumer
    target.wait_until(partial(all_arrived_or_failed, "stomp", consumers.values(), 3), PATIENCE)
    wrong: dict[str, list[str]] = {name: [] for name in (*OURS, "mark")}
    judged = 0
    for words, consumer in consumers.items():
        messages = consumer.peer.take_messages()
        consumer.peer.close_socket()
        is_plain = [PLAIN in message.body for message in messages]
        if sorted(is_plain) != [False, False, True]:
            continue  # any_message_reaches_a_stomp_consumer judges arrival
        judged += 1
        got = {name: [message.get(name) for message in messages] for name in wrong}
        for name, found in got.items():
            same = {*found} == {found[is_plain.index(True)]}  # for "mark": no message has it
            if not (len({*found}) == 3 if name in ("message-id", "ack") else same):
                wrong[name].append(words)
    if not judged:
        target.record_not_applicable(
            target.cited, "of no message did both it and the plain message after it arrive"
        )
        return
    for rule, (name, places) in zip(SET_BY_SERVER, wrong.items(), strict=True):
        if version in rule:
            detail = f"of {judged} messages, those whose property replaced the header {name}"
            words = ", ".join(places) or "none"
            target.record_finding(rule[version], not places, f"{detail}: {words}")
