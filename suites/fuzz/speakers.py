"""Frames of every protocol for the protocol fuzzer, drawn from the tables of the harness's codecs.

A frame has the structure of its protocol. Most of its fields are small numbers and names that other
frames use, so frames interact; a few are boundary numbers or texts.
:mod:`brokerproof.suites.fuzz.operators` breaks the structure.
"""

import functools
import re
from collections.abc import Callable, Sequence
from random import Random

from brokerproof.harness.protocols.websocket import codec as websocket
from brokerproof.harness.protocols.websocket.codec import Op
from brokerproof.suites.fuzz import speakers_amqp091, speakers_amqp10, speakers_java
from brokerproof.suites.fuzz.draws import SELECTORS, Memory, Speaker, body, name, number

MASK = b"\1\2\3\4"


_COMMANDS = ("SEND", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT")
_HEADERS: dict[str, Callable[[Random], str]] = {
    "destination": name,
    "id": lambda random: (
        str(random.randrange(4))
        if random.random() < 0.5
        else f"{number(random, 20):06d}-{number(random, 20):08d}"
    ),
    "transaction": lambda random: random.choice("ab"),
    "receipt": lambda random: random.choice(("r", "", "\\c", "1" * 300)),
    "ack": lambda random: random.choice(("auto", "client", "client-individual", "x")),
    "message-id": lambda random: f"{number(random, 20):06d},{number(random, 20):010d}",
    "subscription": lambda random: str(random.randrange(4)),
    "destination-type": lambda random: random.choice(("ANYCAST", "MULTICAST", "x")),
    "subscription-type": lambda random: random.choice(("ANYCAST", "MULTICAST", "x")),
    "consumer-window-size": lambda random: str(number(random, 33, signed=True)),
    "selector": lambda random: random.choice(SELECTORS),
    "persistent": lambda random: random.choice(("true", "false", "x")),
    "expires": lambda random: str(number(random, 64, signed=True)),
    "priority": lambda random: str(number(random, 8)),
    "content-length": lambda random: str(number(random, 64, signed=True)),
    "durable-subscription-name": name,
    "client-id": name,
    "activemq.prefetchSize": lambda random: str(number(random, 33, signed=True)),
    "heart-beat": lambda random: f"{number(random, 40)},{number(random, 40)}",
    "accept-version": lambda random: random.choice(("1.0", "1.1", "1.2", "1.0,1.2", "9", "")),
    "host": name,
    "a": name,
}
_ESSENTIAL = {
    "SEND": ("destination",),
    "SUBSCRIBE": ("destination", "id", "ack"),
    "UNSUBSCRIBE": ("id",),
    "ACK": ("id", "message-id", "subscription"),
    "NACK": ("id", "message-id", "subscription"),
    "BEGIN": ("transaction",),
    "COMMIT": ("transaction",),
    "ABORT": ("transaction",),
}


def _stomp(random: Random) -> bytes:
    if random.random() < 0.05:
        return random.choice((b"\n", b"\r\n", b"DISCONNECT\n\n\0", b"\n\n\n", b"X\n\n\0"))
    command = random.choice(_COMMANDS) if random.random() < 0.97 else "CONNECT"
    names = list(_ESSENTIAL.get(command, ()))
    names += random.choices(tuple(_HEADERS), k=random.choice((0, 0, 0, 1, 1, 2)))
    content = body(random) if command == "SEND" else b""
    lines = [f"{header}:{_HEADERS[header](random)}" for header in names]
    if content and random.random() < 0.3:
        lines.append(f"content-length:{len(content)}")
    head = "\n".join((command, *lines, "", "")).encode("utf-8", "replace")
    return head + content + b"\0"


_ACK = re.compile(rb"^ack:(\S+)", re.MULTILINE)
_MESSAGE_ID = re.compile(rb"^message-id:(\S+)", re.MULTILINE)
_SUBSCRIPTION = re.compile(rb"^subscription:(\S+)", re.MULTILINE)


def _stomp_sensible(random: Random, memory: Memory) -> bytes:
    """Settle deliveries, in a transaction or not; otherwise SUBSCRIBE and SEND."""
    command = random.choice(("ACK", "ACK", "NACK", "SEND", "SEND", "SUBSCRIBE", "BEGIN", "COMMIT"))
    in_transaction = b"transaction:a\n" if random.random() < 0.2 else b""
    receipt = b"receipt:r\n" if random.random() < 0.5 else b""
    if command in ("ACK", "NACK"):
        named = _ACK.findall(memory.received) or _MESSAGE_ID.findall(memory.received)
        if named:
            subscription = _SUBSCRIPTION.findall(memory.received) or [b"0"]
            head = b"%b\nid:%b\nmessage-id:%b\n" % (command.encode(), named[0], named[0])
            memory.received = b""
            return b"%bsubscription:%b\n%b%b\n\0" % (head, subscription[0], in_transaction, receipt)
        command = "SEND"
    if command == "SUBSCRIBE":
        memory.next_id += 1
        mode = random.choice((b"client", b"client-individual", b"auto"))
        lines = b"SUBSCRIBE\nid:%d\ndestination:%b\nack:%b\n" % (
            memory.next_id,
            _place(random),
            mode,
        )
        return lines + receipt + b"\n\0"
    if command in ("BEGIN", "COMMIT"):
        return command.encode() + b"\ntransaction:a\n" + receipt + b"\n\0"
    kept = b"persistent:true\n" if random.random() < 0.5 else b""
    head = b"SEND\ndestination:%b\n" % _place(random)
    return head + kept + in_transaction + receipt + b"\n" + body(random) + b"\0"


def _place(random: Random) -> bytes:
    return random.choice((b"/queue/q", b"/queue/q", b"/topic/t"))


def _stomp_opening(random: Random) -> Sequence[bytes]:
    version = random.choice(("1.0", "1.1", "1.2", "1.2"))
    return [
        (
            f"CONNECT\naccept-version:{version}\nhost:/\nclient-id:c\n"
            f"login:guest\npasscode:guest\nheart-beat:{random.choice((0, 1, 5000))},0\n\n\0"
        ).encode()
    ]


def _websocket(random: Random) -> bytes:
    payload = _stomp(random)
    kind = random.random()
    if kind < 0.7:
        return websocket.encode(
            random.choice((Op.TEXT, Op.BINARY)), payload[:60_000], mask=MASK, fin=True
        )
    if kind < 0.9:
        op = random.choice((Op.CONTINUATION, Op.BINARY, Op.TEXT))
        return websocket.encode(op, payload[:9], mask=MASK, fin=random.random() < 0.5)
    op = random.choice((Op.PING, Op.PONG, Op.CLOSE))
    return websocket.encode(op, random.choice((b"", b"\x03\xe8", b"x" * 126)), mask=MASK, fin=True)


def _websocket_opening(random: Random) -> Sequence[bytes]:
    upgrade = (*websocket.UPGRADE, ("Sec-WebSocket-Protocol", "v12.stomp"))
    request = websocket.request("here", websocket.key(b"k"), upgrade)
    connect = _stomp_opening(random)[0]
    return [request, websocket.encode(Op.TEXT, connect, mask=MASK, fin=True)]


# --- HTTP, and all together ------------------------------------------------------------


def _http(random: Random) -> bytes:
    method = random.choice(("GET", "PUT", "POST", "DELETE", "OPTIONS", "X"))
    path = random.choice(
        ("overview", "queues", "queues/%2F/q", "connections", "nodes", "x", "%", "queues/%2F/%ff")
    )
    content = random.choice((b"", b"{}", b"[" * 500, b'{"a":1e999}'))
    length = len(content) if random.random() < 0.8 else number(random, 64, signed=True)
    authorization = random.choice(("Basic Z3Vlc3Q6Z3Vlc3Q=", "Basic !", "Bearer x"))
    head = f"{method} /api/{path} HTTP/1.{random.choice('0111')}\r\nHost: h\r\n"
    head += f"Authorization: {authorization}\r\nContent-Length: {length}\r\n\r\n"
    return head.encode() + content


def _nothing(random: Random) -> Sequence[bytes]:
    return []


_STOMP = functools.partial(Speaker, openings=_stomp_opening, frame=_stomp, sensible=_stomp_sensible)
_AMQP = functools.partial(
    Speaker,
    openings=speakers_amqp10.opening,
    frame=speakers_amqp10.frame,
    sensible=speakers_amqp10.sensible,
)
_AMQP091 = Speaker(
    "amqp091", "amqp", speakers_amqp091.opening, speakers_amqp091.frame, speakers_amqp091.sensible
)
_OPENWIRE = Speaker(
    "openwire", "openwire", speakers_java.openwire_opening, speakers_java.openwire_frame
)

FAMILIES: dict[str, tuple[Speaker, ...]] = {
    "artemis": (
        _STOMP("stomp", "all"),
        Speaker("websocket", "all", _websocket_opening, _websocket),
        _AMQP("amqp10", "all"),
        _AMQP("amqp10", "amqp"),
        Speaker("core", "all", speakers_java.core_opening, speakers_java.core_frame),
    ),
    "rabbitmq": (
        *(_AMQP091, _AMQP091),
        _AMQP("amqp10", "amqp"),
        _STOMP("stomp", "stomp"),
        Speaker("http", "management", _nothing, _http),
    ),
    "activemq": (
        *(_OPENWIRE, _OPENWIRE),
        _AMQP("amqp10", "amqp"),
        _STOMP("stomp", "stomp"),
        Speaker("websocket", "stomp", _websocket_opening, _websocket),
    ),
}
"""Speakers by family. One that is listed twice speaks twice as often."""
