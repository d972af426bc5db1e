"""Packets of CORE and commands of OpenWire for the protocol fuzzer."""

from collections.abc import Sequence
from random import Random
from typing import Any

from brokerproof.harness.protocols.core import codec as core
from brokerproof.harness.protocols.core import tables as core_tables
from brokerproof.harness.protocols.core.messages import Message
from brokerproof.harness.protocols.openwire import codec as openwire
from brokerproof.harness.protocols.openwire import tables as openwire_tables
from brokerproof.harness.protocols.openwire.codec import Failure, Structure
from brokerproof.harness.protocols.openwire.raw_peer import OPTIONS
from brokerproof.suites.fuzz.draws import SELECTORS, body, name, number

PACKETS = tuple(core_tables.BY_NAME)
_CORE_OFTEN = (
    *("send", "send", "send", "create-consumer", "consumer-credits", "acknowledge", "commit"),
    *(
        "create-queue-v2",
        "request-producer-credits",
        "rollback",
        "acknowledge-one",
        "session-start",
    ),
)
_SEND_CONTINUATION, _SEND_LARGE = 73, 72


def _core_value(random: Random, kind: str, field: str) -> Any:
    if kind.endswith("?"):
        return None if random.random() < 0.7 else _core_value(random, kind[:-1], field)
    match kind:
        case "boolean":
            return random.random() < 0.5
        case "byte":
            return number(random, 8, signed=True)
        case "int":
            return number(random, 32, signed=True)
        case "long":
            return number(random, 64, signed=True)
        case "bytes":
            return b"x"
        case "rest":
            return random.randbytes(random.randrange(9))
        case "uuid":
            return bytes(16)
        case "message":
            return Message(
                name(random),
                body(random),
                {"a": random.choice((1, "x", None, 0.5, b""))} if random.random() < 0.3 else {},
                durable=random.random() < 0.3,
                expiration=number(random, 63) if random.random() < 0.2 else 0,
            )
    return random.choice(SELECTORS) if field == "filter" else name(random)


def core_frame(random: Random) -> bytes:
    if random.random() < 0.03:
        code = random.choice((_SEND_CONTINUATION, _SEND_LARGE, random.randrange(256)))
        return core.frame(code, number(random, 63), random.randbytes(random.randrange(40)))
    packet = random.choice(_CORE_OFTEN if random.random() < 0.75 else PACKETS)
    channel = core.FIRST
    if packet == "ping":
        channel = core.LIVENESS
    elif packet.startswith("create-session"):
        channel = core.SESSIONS
    elif random.random() < 0.03:
        channel = number(random, 63)
    return core_packet(random, packet, channel)


def core_packet(random: Random, packet: str, channel: int) -> bytes:
    """Return a packet of this name with drawn fields."""
    fields = {
        field: _core_value(random, kind, field)
        for field, kind, _ in core_tables.BY_NAME[packet].fields
        if random.random() < 0.95 or kind == "message"
    }
    return core.encode_packet(packet, fields, channel=channel)


def core_opening(random: Random) -> Sequence[bytes]:
    fields = {
        "name": "s",
        "session_channel": core.FIRST,
        "version": core_tables.NEWEST,
        "window_size": -1,
        "auto_commit_sends": random.random() < 0.5,
        "auto_commit_acks": random.random() < 0.5,
        "username": "guest",
        "password": "guest",
    }
    made = {"address": "q", "queue": "q", "requires_response": True, "max_consumers": -1}
    return [
        core.MAGIC,
        core.encode_packet("create-session", fields, channel=core.SESSIONS),
        core.encode_packet("session-start"),
        core.encode_packet("create-queue-v2", {**made, "routing_type": 1}),
    ]


OPENWIRE_COMMANDS = tuple(table.name for table in openwire_tables.BY_NAME.values() if table.command)
_OPENWIRE_OFTEN = (
    *("ActiveMQBytesMessage", "ActiveMQTextMessage", "ConsumerInfo", "MessageAck", "MessageAck"),
    *("TransactionInfo", "TransactionInfo", "SessionInfo", "ProducerInfo", "RemoveInfo"),
    *("MessagePull", "ConsumerControl", "DestinationInfo"),
)
_STRUCTURES = {
    "destination": ("ActiveMQQueue", "ActiveMQTopic", "ActiveMQTempQueue"),
    "transactionId": ("LocalTransactionId", "LocalTransactionId", "XATransactionId"),
    "objectId": ("ConsumerId", "ProducerId", "SessionId", "ConnectionId"),
    "firstMessageId": ("MessageId",),
    "lastMessageId": ("MessageId",),
    "replyTo": ("ActiveMQQueue",),
}
_PARTS = ("ActiveMQQueue", "MessageId", "LocalTransactionId", "ConnectionId", "SessionId")


def _structure(random: Random, kind: str) -> Structure:
    return Structure(
        kind,
        {
            field: _openwire_value(random, type_, field)
            for field, type_, _ in openwire_tables.BY_NAME[kind].fields
        },
    )


def _openwire_value(random: Random, kind: str, field: str) -> Any:
    match kind:
        case "boolean":
            return random.random() < 0.4
        case "byte":
            return random.randrange(6) if random.random() < 0.9 else number(random, 8, signed=True)
        case "short":
            return number(random, 16, signed=True)
        case "int":
            return number(random, 32, signed=True)
        case "long":
            return number(random, 64, signed=True)
        case "string":
            if field in ("connectionId", "value"):
                return "ID:1"
            if field == "selector":
                return random.choice(SELECTORS) if random.random() < 0.2 else None
            return None if field == "subscriptionName" else name(random)
        case "bytes":
            return body(random)
        case "throwable":
            return Failure("java.lang.Exception", "x") if random.random() < 0.5 else None
        case "structures":
            return None
        case "structure":
            if field not in _STRUCTURES and field[0].islower() and field.endswith("Id"):
                known = field[0].upper() + field[1:]
                if known in openwire_tables.BY_NAME:
                    return _structure(random, known)
            if field in ("transactionId", "replyTo") and random.random() < 0.6:
                return None
            chosen = _STRUCTURES.get(field, (None,))
            kind_ = random.choice(chosen if random.random() < 0.97 else _PARTS)
            return None if kind_ is None else _structure(random, kind_)
    return openwire.MAGIC


def openwire_frame(random: Random) -> bytes:
    often = random.random() < 0.8
    return openwire_command(random, random.choice(_OPENWIRE_OFTEN if often else OPENWIRE_COMMANDS))


def openwire_command(random: Random, command: str) -> bytes:
    """Return a command of this name with drawn fields."""
    fields = {
        field: _openwire_value(random, kind, field)
        for field, kind, _ in openwire_tables.BY_NAME[command].fields
        if random.random() < 0.95
    }
    return openwire.encode_command(command, fields)


def openwire_opening(random: Random) -> Sequence[bytes]:
    session = Structure("SessionId", {"connectionId": "ID:1", "value": 1})
    producer = Structure("ProducerId", {"connectionId": "ID:1", "value": 1, "sessionId": 1})
    connection = Structure("ConnectionId", {"value": "ID:1"})
    login = {"connectionId": connection, "clientId": "c", "userName": "guest", "password": "guest"}
    version = random.choice((1, 2, 5, 12, 12, 12))
    return [
        openwire.encode_command(
            "WireFormatInfo", {"version": version, "marshalledProperties": OPTIONS}
        ),
        *(
            openwire.encode_command(command, fields, version=version)
            for command, fields in (
                ("ConnectionInfo", login),
                ("SessionInfo", {"sessionId": session}),
                ("ProducerInfo", {"producerId": producer, "windowSize": random.choice((0, 2000))}),
            )
        ),
    ]
