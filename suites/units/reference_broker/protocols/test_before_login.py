"""Every command of every protocol in every state before login: none reaches a queue, an exchange or
a binding, and none is answered as if it had been executed.

The commands are those of the protocols' tables, with drawn fields. "Before login" includes after a
refused login and in one chunk with it.
"""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.harness.model.broker_io import BytesReceived, Close, Connected, PeerGone, SendBytes
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.protocols.amqp091 import codec as amqp091
from brokerproof.harness.protocols.amqp091 import tables as amqp091_tables
from brokerproof.harness.protocols.amqp10 import codec as amqp10
from brokerproof.harness.protocols.amqp10 import tables as amqp10_tables
from brokerproof.harness.protocols.amqp10 import types as amqp10_types
from brokerproof.harness.protocols.core import codec as core
from brokerproof.harness.protocols.openwire import codec as openwire
from brokerproof.harness.protocols.openwire.codec import Structure
from brokerproof.harness.protocols.websocket import codec as websocket
from brokerproof.harness.protocols.websocket.codec import Op
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.families.rabbitmq.exchanges import Exchanges
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.kernel.address_book import AddressBook
from brokerproof.reference_broker.kernel.broker import Broker
from brokerproof.reference_broker.kernel.router import DurableSubscriptions, Router
from brokerproof.reference_broker.protocols.amqp091 import connection as amqp091_connection
from brokerproof.reference_broker.protocols.amqp091 import login
from brokerproof.reference_broker.protocols.amqp10 import sasl
from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection
from brokerproof.reference_broker.protocols.amqp10.connection import State as AmqpState
from brokerproof.reference_broker.protocols.core import connection as core_connection
from brokerproof.reference_broker.protocols.management_http import connection as http_connection
from brokerproof.reference_broker.protocols.openwire import client as openwire_client
from brokerproof.reference_broker.protocols.stomp import opening as stomp_opening
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.suites.fuzz import scene, speakers_amqp091, speakers_amqp10, speakers_java

PASSCODE = "right"
Draw = Callable[[Random], bytes]


# --- commands -------------------------------------------------------------------------------------


def _stomp(command: str, random: Random) -> bytes:
    version = random.choice(("1.0", "1.1", "1.2"))
    head = (
        f"{command}\naccept-version:{version}\nhost:/\ndestination:/queue/q\nid:1\nack:auto\n"
        "transaction:a\nmessage-id:1\nsubscription:1\nreceipt:r\nlogin:guest\npasscode:wrong\n\n\0"
    )
    return head.encode()


def _in_websocket(command: str, random: Random) -> bytes:
    return websocket.encode(Op.TEXT, _stomp(command, random), mask=b"\1\2\3\4", fin=True)


def _amqp10(kind: str, random: Random) -> bytes:
    performative = amqp10_types.encode(speakers_amqp10.composite_of(random, kind))
    return amqp10.encode_frame(performative, type=1 if kind.startswith("sasl") else 0)


def _amqp091(method: str, random: Random) -> bytes:
    channel = 0 if method.startswith("connection.") else 1
    return speakers_amqp091.method_frame(random, method, channel)


def _core(packet: str, random: Random) -> bytes:
    channel = core.FIRST
    if packet.startswith("create-session"):
        channel = core.SESSIONS
    return speakers_java.core_packet(random, packet, channel)


def _openwire(command: str, random: Random) -> bytes:
    return speakers_java.openwire_command(random, command)


def _http(path: str, random: Random) -> bytes:
    method = random.choice(("GET", "HEAD", "PUT", "POST", "DELETE"))
    authorization = random.choice(
        ("", "Authorization: Basic Z3Vlc3Q6d3Jvbmc=\r\n", "Authorization: Basic !\r\n")
    )
    return f"{method} /api/{path} HTTP/1.1\r\nHost: h\r\n{authorization}\r\n".encode()


# --- states ---------------------------------------------------------------------------------------


def _started(passcode: bytes, understands: bool) -> bytes:
    fields = {
        "mechanism": "PLAIN",
        "response": b"\0guest\0" + passcode,
        "client-properties": {"capabilities": {"authentication_failure_close": understands}},
    }
    return _method("connection.start-ok", fields)


def _method(name: str, fields: dict[str, Any]) -> bytes:
    return amqp091.encode_frame(amqp091.METHOD, 0, amqp091.encode_method(name, fields))


def _sasl(passcode: bytes) -> bytes:
    response = b"\0guest\0" + passcode
    plain = amqp10.composite("sasl-init", mechanism="PLAIN", initial_response=response)
    return amqp10.encode_frame(amqp10_types.encode(plain), type=1)


def _core_login(passcode: str) -> bytes:
    fields = {"name": "s", "session_channel": core.FIRST, "version": 136, "username": "guest"}
    return core.encode_packet(
        "create-session", {**fields, "password": passcode}, channel=core.SESSIONS
    )


def _openwire_login(passcode: str) -> bytes:
    connection = Structure("ConnectionId", {"value": "ID:1"})
    fields = {"connectionId": connection, "clientId": "c", "userName": "guest"}
    return openwire.encode_command("ConnectionInfo", {**fields, "password": passcode})


WIRE_FORMAT = speakers_java.openwire_opening(Random(6))[0]
LOGGED_OUT = openwire.encode_command(
    "RemoveInfo", {"objectId": Structure("ConnectionId", {"value": "ID:1"})}
)
UPGRADE = websocket.request(
    "here", websocket.key(b"k"), (*websocket.UPGRADE, ("Sec-WebSocket-Protocol", "v12.stomp"))
)
WRONG_CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:wrong\n\n\0"
TUNED = _method("connection.tune-ok", {"channel-max": 9, "frame-max": 131072, "heartbeat": 0})
HEADER091 = amqp091.protocol_header()
SASL_HEADER, AMQP_HEADER = amqp10.protocol_header(3), amqp10.protocol_header()


# --- answers --------------------------------------------------------------------------------------


def _no_frame(answer: bytes) -> bool:
    return not answer or answer.lstrip().startswith(b"ERROR")


def _no_websocket_frame(answer: bytes) -> bool:
    return not any(word in answer for word in (b"CONNECTED", b"RECEIPT", b"MESSAGE"))


def _no_performative(answer: bytes) -> bool:
    """AMQP 1.0: headers, SASL without success, and an ``open`` whose ``close`` has an error."""
    frames = list(amqp10.Reader().feed(_HEADERS10.sub(b"", answer)))
    for frame in frames:
        match frame:
            case amqp10.Frame(name="open" | "sasl-mechanisms" | "sasl-challenge"):
                continue
            case amqp10.Frame(name="sasl-outcome", fields={"code": code}) if code.value != 0:
                continue
            case amqp10.Frame(name="close", fields=fields) if "error" in fields:
                continue
        return False
    return not frames or getattr(frames[-1], "name", "") != "open"


_HEADERS10 = re.compile(rb"AMQP[\x00\x03]\x01\x00\x00")


def _only_closes(answer: bytes) -> bool:
    """AMQP 0-9-1: nothing, ``connection.close``, or the answer to the peer's."""
    return all(
        getattr(frame, "name", "") in ("connection.close", "connection.close-ok")
        for frame in amqp091.Reader().feed(answer)
    )


def _no_packet(answer: bytes) -> bool:
    """CORE: an exception of the channel of sessions, and packets that need no session."""
    packets = core.Reader().feed(answer)
    return all(
        getattr(packet, "name", "") in ("exception", "ping", "check-for-failover-response")
        or getattr(packet, "name", "").startswith("cluster-topology")
        for packet in packets
    )


def _no_response(answer: bytes) -> bool:
    """OpenWire: exceptions and signs of life."""
    expected = {"ExceptionResponse", "ConnectionError", "KeepAliveInfo"}
    return all(
        getattr(command, "name", "") in expected for command in openwire.Reader().feed(answer)
    )


def _no_entry(answer: bytes) -> bool:
    return not answer or answer.split(b" ", 2)[1] in (b"400", b"401", b"404", b"405")


# --- all together ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A state before login, to which ``chunks`` lead; ``together`` sends the last chunk with the
    command. ``harmless`` commands are answered without a login."""

    state: str
    family: str
    acceptor: str
    chunks: Sequence[bytes]
    commands: Sequence[str]
    command: Callable[[str, Random], bytes]
    refused: Callable[[bytes], bool]
    together: bool = False
    harmless: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.state


STOMP = (*COMMANDS, "CONNECT", "STOMP")
AMQP10 = tuple(
    name
    for name, table in amqp10_tables.COMPOSITES.items()
    if 0x10 <= table.code <= 0x18 or 0x40 <= table.code <= 0x44
)
AMQP091 = tuple(amqp091_tables.BY_NAME)
CORE, OPENWIRE = speakers_java.PACKETS, speakers_java.OPENWIRE_COMMANDS
HTTP = ("overview", "cluster-name", "whoami", "nodes", "connections", "queues", "queues/%2F/q")

_stomp_place = functools.partial(Place, commands=STOMP, command=_stomp, refused=_no_frame)
_websocket_place = functools.partial(
    Place, commands=STOMP, command=_in_websocket, refused=_no_websocket_frame
)
_amqp10_place = functools.partial(Place, commands=AMQP10, command=_amqp10, refused=_no_performative)
_amqp091_place = functools.partial(
    Place, "", "rabbitmq", "amqp", commands=AMQP091, command=_amqp091, refused=_only_closes
)
_core_place = functools.partial(
    Place, "", "artemis", "all", commands=CORE, command=_core, refused=_no_packet
)
_openwire_place = functools.partial(
    Place,
    "",
    "activemq",
    "openwire",
    commands=OPENWIRE,
    command=_openwire,
    refused=_no_response,
    harmless=frozenset(
        (
            *("FlushCommand", "BrokerInfo", "ControlCommand", "ConnectionControl", "ProducerAck"),
            *("ConnectionError", "WireFormatInfo"),
        )
    ),
)


def _places() -> Iterator[Place]:
    for family, acceptor in (("artemis", "all"), ("rabbitmq", "stomp"), ("activemq", "stomp")):
        name = f"{family}-stomp"
        yield _stomp_place(f"{name}-first", family, acceptor, chunks=())
        wrong = _stomp_place(f"{name}-refused", family, acceptor, chunks=(WRONG_CONNECT,))
        yield wrong
        yield replace(wrong, state=f"{name}-with-a-wrong-login", together=True)
        if family != "rabbitmq":
            yield _websocket_place(f"{family}-websocket", family, acceptor, chunks=(UPGRADE,))
        for state, chunks in (
            ("first", ()),
            ("plain-header", (AMQP_HEADER,)),
            ("sasl", (SASL_HEADER,)),
            ("refused", (SASL_HEADER, _sasl(b"wrong"))),
        ):
            yield _amqp10_place(f"{family}-amqp10-{state}", family, "amqp", chunks=chunks)
        yield _amqp10_place(
            f"{family}-amqp10-with-a-wrong-login",
            family,
            "amqp",
            chunks=(SASL_HEADER, _sasl(b"wrong") + AMQP_HEADER),
            together=True,
        )
    right, wrong091 = _started(PASSCODE.encode(), True), _started(b"wrong", True)
    silent = _started(b"wrong", False)
    for state, chunks, together in (
        ("first", (HEADER091,), False),
        ("refused", (HEADER091, wrong091), False),
        ("refused-without-a-word", (HEADER091, silent), False),
        ("with-a-wrong-login", (HEADER091, wrong091), True),
    ):
        place = _amqp091_place(chunks=chunks, together=together)
        yield replace(place, state=f"amqp091-{state}")
    for state, chunks in (("tuning", (HEADER091, right)), ("opening", (HEADER091, right, TUNED))):
        yield replace(
            _amqp091_place(chunks=chunks),
            state=f"amqp091-{state}",
            harmless=frozenset(("connection.open", "connection.tune-ok")),
        )
    yield replace(_core_place(chunks=(core.MAGIC,)), state="core-first")
    wrong_core = _core_place(chunks=(core.MAGIC, _core_login("wrong")))
    yield replace(wrong_core, state="core-refused")
    yield replace(wrong_core, state="core-with-a-wrong-login", together=True)
    yield replace(_openwire_place(chunks=()), state="openwire-first")
    yield replace(_openwire_place(chunks=(WIRE_FORMAT,)), state="openwire-negotiated")
    wrong_openwire = _openwire_place(chunks=(WIRE_FORMAT, _openwire_login("wrong")))
    yield replace(wrong_openwire, state="openwire-refused")
    yield replace(wrong_openwire, state="openwire-with-a-wrong-login", together=True)
    logged_out = (WIRE_FORMAT, _openwire_login(PASSCODE), LOGGED_OUT)
    yield replace(_openwire_place(chunks=logged_out), state="openwire-logged-out")
    yield Place("http", "rabbitmq", "management", (), HTTP, _http, _no_entry)


PLACES = {str(place): place for place in _places()}
_OF_A_CLOSE = {"begin_input", "forget_creator", "left_by", "tidy"}
"""Methods that every input or close calls."""


@functools.cache
def _broker(family: str) -> Broker:
    plain = scene.settings(scene.Setting(family, False))
    return create_broker(replace(plain, security_enabled=True, users={"guest": PASSCODE}))


_conns = iter(range(1, 1 << 40))


def _problem(place: Place, name: str, command: bytes, reached: list[str]) -> str:
    """Send ``command`` in ``place``; return what is wrong, or "" if nothing is."""
    broker = _broker(place.family)
    conn = next(_conns)
    broker.handle(0, Connected(conn, place.acceptor, "peer"))
    chunks = list(place.chunks)
    last = chunks.pop() if place.together else b""
    for chunk in chunks:
        broker.handle(0, BytesReceived(conn, chunk))
    del reached[:]
    answer, closed = b"", False
    for effect in broker.handle(0, BytesReceived(conn, last + command)):
        match effect:
            case SendBytes(to, data) if to == conn:
                answer += data
            case Close(to) if to == conn:
                closed = True
    wrong = ""
    if reached:
        wrong = f"reaches {reached[0]}"
    elif name not in place.harmless and not place.refused(answer):
        wrong = f"is answered with {answer[:200]!r}"
    if not closed:
        broker.handle(0, PeerGone(conn, CloseHow.RESET))
    return wrong and f"{place}: {name} {wrong}"


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record calls of methods that look up, make or change queues, exchanges and bindings."""
    calls: list[str] = []

    def noting(owner: type, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def noted(*arguments: Any, **options: Any) -> Any:
            calls.append(f"{owner.__name__}.{name}")
            return method(*arguments, **options)

        return noted

    for owner in (AddressBook, DurableSubscriptions, Router, Topology, Exchanges):
        for name, method in list(vars(owner).items()):
            if callable(method) and not name.startswith("_") and name not in _OF_A_CLOSE:
                monkeypatch.setattr(owner, name, noting(owner, name, method))
    return calls


def _problems(place: Place, seed: int, reached: list[str]) -> Iterator[str]:
    random = Random(seed)
    for name in place.commands:
        problem = _problem(place, name, place.command(name, random), reached)
        if problem:
            yield problem


@pytest.mark.parametrize("place", PLACES.values(), ids=str)
def test_no_command_is_carried_out_before_a_login(place: Place, reached: list[str]) -> None:
    @settings(max_examples=12, deadline=None)
    @given(st.integers(0, 1 << 32))
    def check(seed: int) -> None:
        assert list(_problems(place, seed, reached)) == []

    check()


# --- faults ---------------------------------------------------------------------------------------


def _admits(*_: object) -> bool:
    return True


def _runs_at_once(self: Any, *arguments: Any) -> None:
    self._state = type(self._state).RUNNING
    FRAME091(self, *arguments)


def _opened_at_once(self: Any, type_: int, channel: int, body: bytes) -> None:
    self._state = AmqpState.OPENED
    FRAME10(self, type_, channel, body)


FRAME091 = amqp091_connection.Amqp091Connection._frame
FRAME10 = AmqpConnection._frame


@pytest.mark.parametrize(
    ("place", "owner", "name", "fault"),
    [
        ("artemis-stomp-with-a-wrong-login", stomp_opening, "admitted", _admits),
        ("artemis-websocket", stomp_opening, "admitted", _admits),
        ("artemis-amqp10-with-a-wrong-login", sasl, "admitted", _admits),
        ("artemis-amqp10-sasl", AmqpConnection, "_frame", _opened_at_once),
        ("artemis-amqp10-plain-header", AmqpConnection, "_header", None),
        ("amqp091-with-a-wrong-login", login, "admitted", _admits),
        ("amqp091-opening", amqp091_connection.Amqp091Connection, "_frame", _runs_at_once),
        ("core-with-a-wrong-login", core_connection, "admitted", _admits),
        ("openwire-with-a-wrong-login", openwire_client, "admitted", _admits),
        ("openwire-negotiated", openwire_client.Client, "logged_in", True),
        ("openwire-logged-out", openwire_client.Client, "logged_in", True),
        ("http", http_connection, "admitted", _admits),
    ],
)
def test_a_login_that_is_not_checked_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
    reached: list[str],
    place: str,
    owner: Any,
    name: str,
    fault: Any,
) -> None:
    if name == "_header":
        fault = _header_without_security(getattr(owner, name))
    monkeypatch.setattr(owner, name, fault)
    assert any(any(_problems(PLACES[place], seed, reached)) for seed in range(20))


def _header_without_security(original: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def header(self: Any) -> bool:
        secured, self.shared.settings = (
            self.shared.settings,
            replace(self.shared.settings, security_enabled=False),
        )
        try:
            return original(self)
        finally:
            self.shared.settings = secured

    return header
