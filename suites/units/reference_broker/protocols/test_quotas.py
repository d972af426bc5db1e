"""Quotas of a connection, for each protocol and resource: up to the quota all are accepted, one
more is refused in the protocol's own way, and other clients notice nothing."""

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from brokerproof.harness.model.broker_io import BytesReceived, Close, Connected, PeerGone, SendBytes
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.protocols.amqp091 import codec as codec091
from brokerproof.harness.protocols.core import codec as core
from brokerproof.harness.protocols.core.messages import Message
from brokerproof.harness.protocols.openwire.codec import Structure
from brokerproof.harness.protocols.openwire.raw_peer import queue
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.protocols.amqp10 import headers
from brokerproof.reference_broker.protocols.amqp10.messaging import Declare
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    Begin,
    Detach,
    Open,
    Transfer,
)
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.quotas import Quotas
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.fuzz import scene, speakers_amqp091, speakers_java
from brokerproof.suites.repo.sources import ROOT
from brokerproof.suites.units.drivers.smallest_frames import amqp10, java
from brokerproof.suites.units.drivers.smallest_frames.amqp091 import method

MOST = 5
Frames = Callable[[int], bytes]


@dataclass(frozen=True)
class Case:
    """``frames`` makes the request for another ``resource`` from its number. The answer to one too
    many contains ``refusal``. ``present`` is how many a new connection already has."""

    protocol: str
    resource: str
    frames: Frames
    refusal: bytes
    present: int = 0
    quota: int = MOST

    def __str__(self) -> str:
        return f"{self.protocol}-{self.resource}"


OPENINGS: dict[str, tuple[str, str, Callable[[], Sequence[bytes]]]] = {
    "stomp": ("artemis", "all", lambda: [b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"]),
    "amqp10": ("artemis", "amqp", lambda: _opened()),
    "core": ("artemis", "all", lambda: speakers_java.core_opening(Random(1))[:3]),
    "amqp091": ("rabbitmq", "amqp", lambda: speakers_amqp091.opening(Random(1))[:5]),
    "openwire": ("activemq", "openwire", lambda: speakers_java.openwire_opening(Random(6))[:3]),
}


def _opened() -> Sequence[bytes]:
    opened = amqp10.framed(Open(container_id="c"))
    return [headers.AMQP, opened, _begin(-1)]


def _begin(number: int) -> bytes:
    return amqp10.framed(Begin(next_outgoing_id=0, **amqp10.LIMITS), channel=number + 1)


def _declare(number: int) -> bytes:
    attached = amqp10.framed(amqp10.coordinator(0)) if number == 0 else b""
    declare = b"\0\x53\x77" + Declare().encode()
    return attached + amqp10.framed(_transfer(0, number), payload=declare)


def _transfer(handle: int, number: int, **more: Any) -> Transfer:
    tag = number.to_bytes(4)
    return Transfer(handle=handle, delivery_id=number, delivery_tag=tag, message_format=0, **more)


def _sender_elsewhere(number: int) -> bytes:
    return amqp10.framed(amqp10.sender(number, f"a{number}"))


def _unfinished10(number: int) -> bytes:
    begun = amqp10.framed(_transfer(number, number, more=True), payload=b"x" * 1000)
    return amqp10.framed(amqp10.sender(number)) + begun


def _unfinished091(number: int) -> bytes:
    channel = number + 2
    header = codec091.encode_content_header(200_000, {})
    return (
        method("channel.open", {}, channel)
        + method("basic.publish", {"routing_key": "q"}, channel)
        + codec091.encode_frame(codec091.HEADER, channel, header)
        + codec091.encode_frame(codec091.BODY, channel, b"x" * 100_000)
    )


def _exchange(name: str) -> bytes:
    return method("exchange.declare", {"exchange": name, "type": "fanout"})


def _binding(number: int) -> bytes:
    declared = method("queue.declare", {"queue": "q"}) if number == 0 else b""
    bound = {"queue": "q", "exchange": "amq.direct", "routing_key": str(number)}
    return declared + 2 * method("queue.bind", bound)  # the second call adds no binding


def _binding_of_exchanges(number: int) -> bytes:
    bound = {"destination": "amq.fanout", "source": "amq.direct", "routing_key": str(number)}
    return method("exchange.bind", bound)


def _consume091(number: int) -> bytes:
    declared = method("queue.declare", {"queue": "q"}) if number == 0 else b""
    return declared + method("basic.consume", {"queue": "q", "consumer_tag": str(number)})


def _create_session(number: int) -> bytes:
    fields = {"name": f"s{number}", "session_channel": core.FIRST + 1 + number, "version": 136}
    return java.packet("create-session", core.SESSIONS, **fields)


def _core_consumer(number: int) -> bytes:
    made = java.core_queue("q") if number == 0 else b""
    return made + java.packet("create-consumer", consumer=number, queue="q", requires_response=True)


def _core_send(number: int) -> bytes:
    return java.packet("send", message=Message(f"a{number}", b"x"), requires_response=True)


def _core_producer(number: int) -> bytes:
    return java.packet("request-producer-credits", address=f"a{number}", credits=1)


def _command(name: str, **fields: Any) -> bytes:
    return java.command(name, responseRequired=True, **fields)


CONNECTION = Structure("ConnectionId", {"value": "ID:1"})


def _openwire_consumer(number: int) -> bytes:
    id = java.identity("ConsumerId", sessionId=1, value=number)
    return _command("ConsumerInfo", consumerId=id, destination=java.Q, prefetchSize=1)


def _openwire_transaction(number: int) -> bytes:
    id = java.transaction(number)
    return _command("TransactionInfo", connectionId=CONNECTION, transactionId=id, type=0)


def _session(number: int) -> bytes:
    return _command("SessionInfo", sessionId=java.identity("SessionId", value=number + 2))


def _producer(number: int) -> bytes:
    id = java.identity("ProducerId", sessionId=1, value=number)
    return _command("ProducerInfo", producerId=id, windowSize=0)


def _channel(number: int) -> bytes:
    return method("channel.open", {}, number + 2)


def _destination(number: int) -> bytes:
    destination = queue(f"a{number}")
    return _command("DestinationInfo", connectionId=CONNECTION, destination=destination)


LIMIT = b"amqp:resource-limit-exceeded"
RESOURCE_ERROR = (506).to_bytes(2)
_REFUSED = java.packet("producer-credits-refused", credits=1, address="a5")
CREDITS_REFUSED = _REFUSED[4:].replace(b"\0", b"")
ALLOCATION = b"ResourceAllocationException"


def _stomp(command: str, header: str) -> Frames:
    return lambda number: f"{command}\n{header.format(number)}receipt:r\n\n\0".encode()


CASES = [
    Case("stomp", "subscriptions", _stomp("SUBSCRIBE", "id:{0}\ndestination:q\n"), b"too many"),
    Case("stomp", "transactions", _stomp("BEGIN", "transaction:{0}\n"), b"too many transactions"),
    Case("stomp", "addresses", _stomp("SEND", "destination:a{0}\n"), b"was not created"),
    Case("amqp10", "subscriptions", lambda n: amqp10.framed(amqp10.receiver(n)), LIMIT),
    Case("amqp10", "sessions", _begin, LIMIT, present=1),
    Case("amqp10", "transactions", _declare, LIMIT),
    Case("amqp10", "addresses", _sender_elsewhere, b"was not created"),
    Case("amqp10", "unfinished_bytes", _unfinished10, LIMIT, quota=MOST * 1000),
    Case("amqp091", "subscriptions", _consume091, RESOURCE_ERROR),
    Case("amqp091", "sessions", _channel, RESOURCE_ERROR, present=1),
    Case(
        "amqp091",
        "addresses",
        lambda n: method("queue.declare", {"queue": f"a{n}"}),
        RESOURCE_ERROR,
    ),
    Case("amqp091", "exchanges", lambda n: _exchange(f"e{n}"), RESOURCE_ERROR),
    Case("amqp091", "bindings", _binding, RESOURCE_ERROR),
    Case("amqp091", "bindings", _binding_of_exchanges, RESOURCE_ERROR),
    Case("amqp091", "unfinished_bytes", _unfinished091, RESOURCE_ERROR, quota=MOST * 100_000),
    Case("core", "subscriptions", _core_consumer, b"are allowed"),
    Case("core", "sessions", _create_session, b"are allowed", present=1),
    Case("core", "addresses", _core_send, b"was not created"),
    Case("core", "producers", _core_producer, CREDITS_REFUSED),
    Case("openwire", "subscriptions", _openwire_consumer, ALLOCATION),
    Case("openwire", "sessions", _session, ALLOCATION, present=2),
    Case("openwire", "transactions", _openwire_transaction, ALLOCATION),
    Case("openwire", "producers", _producer, ALLOCATION),
    Case("openwire", "addresses", _destination, b"was not created"),
]


class Talk:
    def __init__(self, case: Case, **quotas: int) -> None:
        family, acceptor, opening = OPENINGS[case.protocol]
        settings = replace(scene.settings(scene.Setting(family, False)), quotas=Quotas(**quotas))
        self.broker = create_broker(settings)
        self.closed = False
        self.broker.handle(0, Connected(1, acceptor, "peer"))
        for chunk in opening():
            self.say(chunk)
        assert not self.closed
        plain = "all" if family == "artemis" else "stomp"
        self.broker.handle(0, Connected(2, plain, "bystander"))
        login = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0"
        assert b"CONNECTED" in self.say(login, 2)

    def say(self, raw: bytes, conn: int = 1) -> bytes:
        answer = b""
        for effect in self.broker.handle(0, BytesReceived(conn, raw)):
            match effect:
                case SendBytes(to, data) if to == conn:
                    answer += data
                case Close(to) if to == conn:
                    self.closed = True
        return (
            answer.replace(b"\0", b"") if conn == 1 and b"ResourceAlloc" not in answer else answer
        )

    def bystander_is_served(self) -> bool:
        return b"RECEIPT" in self.say(b"SEND\ndestination:/queue/b\nreceipt:r\n\n\0", 2)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_more_than_the_quota_is_refused(case: Case) -> None:
    talk = Talk(case, **{case.resource: case.quota + case.present})
    for number in range(MOST):
        answer = talk.say(case.frames(number))
        assert not talk.closed
        assert case.refusal not in answer
    answer = talk.say(case.frames(MOST))
    assert case.refusal in answer
    assert talk.bystander_is_served()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_that_quota_it_is_accepted(case: Case) -> None:
    talk = Talk(case)
    for number in range(MOST + 1):
        answer = talk.say(case.frames(number))
        assert not talk.closed
        assert case.refusal not in answer


_ASKING = ("exceeded", "check_quota", "_check_quota")
EXCEEDED = Quotas.exceeded


@dataclass(frozen=True, order=True)
class Site:
    file: str
    function: str
    resource: str

    def __str__(self) -> str:
        return f"{self.file}-{self.function}-{self.resource}"


def _written() -> Iterator[Site]:
    """Yield the places, by the text of the broker's modules."""
    for path in sorted((ROOT / "reference_broker").rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef) or function.name in _ASKING:
                continue
            for call in ast.walk(function):
                match call:
                    case ast.Call(
                        func=ast.Attribute(attr=name), args=[ast.Constant(value=resource), *_]
                    ) if name in _ASKING:
                        yield Site(path.name, function.name, str(resource))


def _asking(resource: str) -> Site:
    frame = sys._getframe(2)
    while frame.f_code.co_name in _ASKING:
        assert frame.f_back is not None
        frame = frame.f_back
    return Site(Path(frame.f_code.co_filename).name, frame.f_code.co_name, resource)


SITES = sorted(set(_written()))


@pytest.mark.parametrize("site", SITES, ids=str)
def test_a_quota_that_is_removed_at_one_place_is_missed_by_a_case(
    monkeypatch: pytest.MonkeyPatch, site: Site
) -> None:
    asked: set[Site] = set()

    def exceeded(self: Quotas, resource: str, count: int) -> str | None:
        place = _asking(resource)
        asked.add(place)
        return None if place == site else EXCEEDED(self, resource, count)

    monkeypatch.setattr(Quotas, "exceeded", exceeded)
    missing = []
    for case in CASES:
        if case.resource == site.resource:
            talk = Talk(case, **{case.resource: case.quota + case.present})
            answers = [talk.say(case.frames(number)) for number in range(MOST + 1)]
            if case.refusal not in answers[-1]:
                missing.append(case)
    assert site in asked
    assert missing


def _twice(*commands: str) -> Frames:
    return lambda number: (
        "".join(f"{command}\n\n\0" for command in commands).replace("NUMBER", str(number)).encode()
    )


def _aborted(number: int) -> bytes:
    attached = amqp10.framed(amqp10.sender(0)) if number == 0 else b""
    begun = amqp10.framed(_transfer(0, number, more=True), payload=b"x" * 1000)
    return attached + begun + amqp10.framed(Transfer(handle=0, aborted=True))


def _detached(number: int) -> bytes:
    return _unfinished10(number) + amqp10.framed(Detach(handle=number, closed=True))


def _finished(number: int) -> bytes:
    return _unfinished091(number) + codec091.encode_frame(codec091.BODY, number + 2, b"x" * 100_000)


def _unbinding(number: int) -> bytes:
    bound = {"queue": "q", "exchange": "amq.direct", "routing_key": str(number)}
    return method("queue.unbind", bound)


def _exchange_deleted_with_its_last_binding() -> bytes:
    bound = {"queue": "q", "exchange": "e"}
    declared = {"exchange": "e", "type": "fanout", "auto_delete": True}
    return (
        method("queue.declare", {"queue": "q"})
        + method("exchange.declare", declared)
        + method("queue.bind", bound)
        + method("queue.unbind", bound)
    )


_CHANNEL_CLOSED = codec091.encode_frame(codec091.METHOD, 1, b"\0\x14\0\x28")[7:11]


BY_NAME = {str(case): case for case in CASES}
ROUNDS: list[tuple[str, Frames]] = [
    (
        "stomp-subscriptions",
        _twice("SUBSCRIBE\nid:NUMBER\ndestination:q", "UNSUBSCRIBE\nid:NUMBER"),
    ),
    ("stomp-transactions", _twice("BEGIN\ntransaction:NUMBER", "ABORT\ntransaction:NUMBER")),
    (
        "stomp-addresses",
        _twice(
            "SUBSCRIBE\nid:NUMBER\ndestination:aNUMBER\nsubscription-type:MULTICAST",
            "UNSUBSCRIBE\nid:NUMBER",
        ),
    ),
    ("amqp10-unfinished_bytes", _aborted),
    ("amqp10-unfinished_bytes", _detached),
    ("amqp091-unfinished_bytes", _finished),
    ("amqp091-exchanges", lambda n: _exchange("e") + method("exchange.delete", {"exchange": "e"})),
    ("amqp091-exchanges", lambda n: _exchange_deleted_with_its_last_binding()),
    ("amqp091-bindings", lambda n: _binding(0) + method("queue.delete", {"queue": "q"})),
    ("amqp091-bindings", lambda n: _binding(n) + _unbinding(n)),
]


@pytest.mark.parametrize(("name", "frames"), ROUNDS)
def test_what_is_over_does_not_count(name: str, frames: Frames) -> None:
    case = BY_NAME[name]
    talk = Talk(case, **{case.resource: case.quota})
    for number in range(4 * MOST):
        answer = talk.say(frames(number))
        assert not talk.closed
        assert case.refusal not in answer
        assert _CHANNEL_CLOSED not in answer


def test_one_connection_more_than_allowed_is_closed_without_a_word() -> None:
    acceptor = Acceptor("stomp", connections_allowed=2)
    broker = create_broker(Settings(acceptors=(acceptor,)))
    login = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"
    for conn in (1, 2):
        broker.handle(0, Connected(conn, "stomp", "peer"))
        assert broker.handle(0, BytesReceived(conn, login))
    assert broker.handle(0, Connected(3, "stomp", "peer")) == [Close(3)]
    assert broker.handle(0, BytesReceived(3, login)) == []
    broker.handle(0, PeerGone(1, CloseHow.RESET))
    broker.handle(0, Connected(4, "stomp", "peer"))
    assert broker.handle(0, BytesReceived(4, login))


def test_the_document_has_each_quota_with_its_default() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    for field in fields(Quotas):
        assert f"| `{field.name}` | {field.default} |" in text
