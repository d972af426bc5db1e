"""Headers, SASL, open, close, silence and errors of AMQP connections, and how AMQP is told from
STOMP."""

from dataclasses import replace
from typing import Any

import pytest

from brokerproof.harness.model.time import seconds
from brokerproof.reference_broker.protocols.amqp10 import headers
from brokerproof.reference_broker.protocols.amqp10.framing import EMPTY, SASL, frame
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    Begin,
    Close,
    End,
    Open,
    SaslChallenge,
    SaslInit,
    SaslOutcome,
    SaslResponse,
)
from brokerproof.reference_broker.protocols.amqp10.sasl import SaslServer
from brokerproof.reference_broker.protocols.amqp10.types import Symbol
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.amqp10 import AMQP, Desk, Peer, settings

SECURE = replace(AMQP, security_enabled=True, users={"me": "secret", "ü": "ö"})


def only(frames: list[Any]) -> Any:
    (frame,) = frames
    return frame.value


def condition(frames: list[Any]) -> str:
    error = frames[-1].value.error
    assert error is not None, frames
    assert "AMQP10-" in error.description
    return str(error.condition)


# --- SASL -----------------------------------------------------------------------------------------


def sasl(peer: Peer, *frames: Any) -> list[Any]:
    return peer.raw(b"".join(frame(0, body.encode(), SASL) for body in frames))


@pytest.mark.parametrize(
    ("mechanism", "response", "code"),
    [
        ("PLAIN", b"\0me\0secret", 0),
        ("PLAIN", b"me\0me\0secret", 0),
        ("PLAIN", "\0ü\0ö".encode(), 0),
        ("PLAIN", b"you\0me\0secret", 1),
        ("PLAIN", b"\0me\0wrong", 1),
        ("PLAIN", b"\0me\0", 1),
        ("PLAIN", b"\0nobody\0secret", 1),
        ("PLAIN", b"\0nobody\0", 1),
        ("PLAIN", b"\0\0secret", 1),
        ("PLAIN", b"me\0secret", 1),
        ("PLAIN", b"\0me\0sec\0ret", 1),
        ("PLAIN", b"\0m\xff\0secret", 1),
        ("ANONYMOUS", b"", 1),
        ("EXTERNAL", b"", 1),
        ("GSSAPI", b"", 1),
    ],
)
def test_who_may_come_in(mechanism: str, response: bytes, code: int) -> None:
    peer = Peer(Desk(SECURE))
    peer.raw(headers.SASL)
    outcome = only(sasl(peer, SaslInit(mechanism=Symbol(mechanism), initial_response=response)))
    assert outcome == SaslOutcome(code=code)
    assert (peer.conn in peer.desk.closed) == (code != 0)
    if code == 0:
        assert isinstance(peer.open()[0].value, Open)
        assert peer.headers == [headers.SASL, headers.AMQP]


def test_a_response_that_did_not_come_first_is_asked_for() -> None:
    peer = Peer(Desk(SECURE))
    peer.raw(headers.SASL)
    assert only(sasl(peer, SaslInit(mechanism=Symbol("PLAIN")))) == SaslChallenge(challenge=b"")
    assert only(sasl(peer, SaslResponse(response=b"\0me\0secret"))) == SaslOutcome(code=0)


@pytest.mark.parametrize(
    "data",
    [
        frame(0, SaslResponse(response=b"x").encode(), SASL),
        frame(0, SaslOutcome(code=0).encode(), SASL),
        frame(0, b"", SASL),
        frame(0, SaslInit(mechanism=Symbol("PLAIN")).encode() + b"x", SASL),
        frame(0, SaslInit(mechanism=Symbol("PLAIN")).encode()),
        frame(0, b"\0\x53\x41\x45", SASL),
        frame(0, SaslInit(mechanism=Symbol("PLAIN"), initial_response=b"x" * 500).encode(), SASL),
        b"\0\0\0\7",
        b"\0\0\2\1",
    ],
)
def test_what_is_no_part_of_the_conversation_ends_it(data: bytes) -> None:
    peer = Peer(Desk(SECURE))
    peer.raw(headers.SASL)
    frames = peer.raw(data)
    assert only(frames) == SaslOutcome(code=1)
    assert peer.desk.closed == [peer.conn]


def test_external_is_whom_the_transport_knows() -> None:
    server = SaslServer(("EXTERNAL",), {}, True, "CN=me")
    for initial, code in ((None, 0), (b"", 0), (b"CN=me", 0), (b"CN=you", 1)):
        outcome = server.start("EXTERNAL", initial)
        assert not isinstance(outcome, bytes)
        assert outcome.code == code
    stranger = SaslServer(("EXTERNAL",), {}, True, None).start("EXTERNAL", None)
    assert not isinstance(stranger, bytes)
    assert stranger.code == 1


# --- open -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (settings(amqp_idle_timeout_ms=2001), 1000),
        (settings(amqp_idle_timeout_ms=0), None),
        (settings(amqp_idle_timeout_ms=-1), None),
        (replace(AMQP, connection_ttl_override_ms=500), 250),
        (replace(settings(amqp_idle_timeout_ms=80), connection_ttl_override_ms=500), 40),
    ],
)
def test_the_idle_time_out_that_we_announce(changed: Settings, expected: int | None) -> None:
    assert only(Peer(Desk(changed)).open()).idle_time_out == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            frame(0, Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1).encode()),
            "amqp:not-allowed",
        ),
        (frame(0, Close().encode()), "amqp:not-allowed"),
        (frame(1, Open(container_id="c").encode()), "amqp:not-allowed"),
        (frame(0, Open(container_id="c", max_frame_size=511).encode()), "amqp:invalid-field"),
        (frame(0, Open(container_id="c", idle_time_out=9).encode()), "amqp:not-allowed"),
        (frame(0, b"\0\x53\x10\x45"), "amqp:decode-error"),
        (frame(0, b"\0\x53\x10"), "amqp:decode-error"),
        (frame(0, b"\0"), "amqp:decode-error"),
        (frame(0, b"x"), "amqp:decode-error"),
        (frame(0, b"\0\x53\x99\x45"), "amqp:decode-error"),
        (
            frame(0, SaslInit(mechanism=Symbol("PLAIN")).encode(), SASL),
            "amqp:connection:framing-error",
        ),
        (frame(0, b"", 7), "amqp:connection:framing-error"),
        (b"\0\0\0\7\2\0\0\0", "amqp:connection:framing-error"),
        (b"\0\0\0\x08\1\0\0\0", "amqp:connection:framing-error"),
        (b"\x7f\xff\xff\xff\2\0\0\0", "amqp:connection:framing-error"),
        (b"\0\2\0\1\2\0\0\0", "amqp:connection:framing-error"),
    ],
)
@pytest.mark.parametrize("opened", [False, True])
def test_a_connection_that_makes_a_mistake_is_opened_and_closed(
    data: bytes, expected: str, opened: bool
) -> None:
    desk = Desk()
    other = Peer(desk).ready()
    peer = Peer(desk)
    peer.raw(headers.AMQP)
    if opened:
        peer.send(Open(container_id="peer"))
        if b"\0\x53\x10" in data and len(data) > 12:
            expected = "amqp:illegal-state"  # a second open, whatever its fields
        elif b"\0\x53\x11" in data or b"\0\x53\x18" in data:
            return  # begin and close are allowed now
    frames = peer.raw(data)
    kinds = [type(frame.value) for frame in frames]
    assert kinds == ([Close] if opened else [Open, Close])
    assert condition(frames) == expected
    assert desk.closed == [], "the peer's close is waited for"
    assert peer.raw(EMPTY + frame(0, Close().encode())) == []
    desk.run(desk.now + seconds(3))
    assert desk.closed == [peer.conn]
    assert [type(frame.value) for frame in other.begin(1)] == [Begin], "others are not touched"


# --- silence --------------------------------------------------------------------------------------


def test_a_peer_that_never_opens_is_closed_without_a_word() -> None:
    desk = Desk()
    silent, half = Peer(desk), Peer(desk)
    half.raw(headers.AMQP)
    half.read()
    desk.run(seconds(10) - 1)
    assert desk.closed == []
    desk.run(seconds(10))
    assert desk.closed == [silent.conn, half.conn]
    assert half.read() == []


def test_without_a_time_out_silence_lasts() -> None:
    desk = Desk(settings(amqp_idle_timeout_ms=0))
    peer = Peer(desk).ready()
    desk.run(seconds(1_000_000))
    assert (peer.read(), desk.closed) == ([], [])


# --- sessions of a connection ---------------------------------------------------------------------


def test_the_peers_channel_max_limits_the_channels_of_our_answers() -> None:
    peer = Peer(Desk())
    peer.open(channel_max=1)
    assert [peer.begin(channel)[0].channel for channel in (9, 7)] == [0, 1]
    assert peer.send(End(), channel=9)[0].channel == 0
    assert peer.begin(8)[0].channel == 0
    assert condition(peer.begin(3)) == "amqp:resource-limit-exceeded"
