"""No record contains credentials, whether they are recognised by place, by value, or in pieces.
Everything else stays unchanged."""

import base64
import os
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.trace.events import (
    RECORDED_BYTES,
    FrameReceived,
    FrameSent,
    Headers,
    Noted,
    OctetsSent,
)
from brokerproof.harness.trace.redaction import Redaction, without_passcode

PASSCODE = "Unlikely:Pass&word/19"
REDACTION = Redaction("me", PASSCODE)


def sent(headers: Headers, protocol: str = "STOMP", command: str = "CONNECT") -> FrameSent:
    return FrameSent(at_ns=0, conn=1, protocol=protocol, command=command, headers=headers, size=99)


def values(*events: FrameSent, redaction: Redaction = REDACTION) -> list[str]:
    redacted = redaction.events(events)
    return [value for event in redacted for _, value in getattr(event, "headers")]  # noqa: B009


def test_wrong_passcodes_stay_distinguishable() -> None:
    passcodes = [PASSCODE, "wrong", "wrong", PASSCODE + "x", "", "<passcode>"]
    assert values(*(sent((("passcode", passcode),)) for passcode in passcodes)) == [
        *("<passcode>", "<other passcode>", "<other passcode>", "<other passcode 2>", ""),
        "<other passcode 3>",
    ]


@pytest.mark.parametrize(
    ("protocol", "command", "name", "value", "placeholder"),
    [
        ("AMQP", "sasl-init", "initial-response", "0x00616200636465", "<initial-response>"),
        ("AMQP", "sasl-init", "initial-response", "0x00616200", "<other initial-response>"),
        ("AMQP", "sasl-response", "response", "0x01", "<other response>"),
        ("AMQP091", "connection.start-ok", "response", "\0ab\0cde", "<response>"),
        ("AMQP091", "connection.start-ok", "response", "\0ab\0x", "<other response>"),
        ("CORE", "createsession", "password", "cde", "<password>"),
        ("OPENWIRE", "ConnectionInfo", "password", "cde", "<password>"),
        ("HTTP", "GET /api", "Authorization", "Basic x", "<other Authorization>"),
    ],
)
def test_every_protocol_has_its_place(
    protocol: str, command: str, name: str, value: str, placeholder: str
) -> None:
    event = sent(((name, value),), protocol, command)
    assert values(event, redaction=Redaction("ab", "cde")) == [placeholder]


def test_other_headers_and_sizes_stay() -> None:
    frame = sent((("login", "me"), ("passcode", PASSCODE), ("response", "x")))
    (event,) = REDACTION.events([frame])
    assert isinstance(event, FrameSent)
    assert event.headers == (("login", "me"), ("passcode", "<passcode>"), ("response", "x"))
    assert event.size == 99
    unchanged = sent((("a", "b"),), command="SEND")
    assert REDACTION.events([unchanged])[0] is unchanged


@given(st.binary(max_size=20), st.binary(max_size=20), st.sampled_from(range(7)))
def test_a_value_is_found_in_any_spelling(before: bytes, behind: bytes, spelling: int) -> None:
    raw = PASSCODE.encode()
    data = [
        before + raw + behind,
        base64.b64encode(before + raw + behind),
        base64.urlsafe_b64encode(before + raw + behind),
        (before + raw + behind).hex().encode(),
        (before + raw + behind).hex().upper().encode(),
        before + quote(PASSCODE, safe="").encode() + behind,
        before + PASSCODE.replace("&", "&amp;").encode() + behind,
    ][spelling]
    redacted = REDACTION.data(data)
    assert b"*" * 20 in redacted
    assert len(redacted) == len(data)


def test_pieces_are_redacted_together() -> None:
    whole = f"CONNECT\nlogin:me\npasscode:{PASSCODE}\n\n\0".encode()
    events = [OctetsSent(at_ns=0, conn=1, data=bytes([byte]), size=1) for byte in whole]
    data = b"".join(getattr(event, "data") for event in REDACTION.events(events))  # noqa: B009
    assert data == whole.replace(PASSCODE.encode(), b"*" * len(PASSCODE))


def test_a_record_that_was_cut_inside_a_passcode_is_redacted() -> None:
    data = (b"x" * RECORDED_BYTES + PASSCODE.encode()[:9])[-RECORDED_BYTES:]
    assert REDACTION.data(data).endswith(b"x" + b"*" * 9)


def test_notes_bodies_and_unreadable_bytes_are_searched() -> None:
    body = FrameReceived(at_ns=0, protocol="STOMP", command="ERROR", body=PASSCODE.encode())
    plain = OctetsSent(at_ns=0, data=b"PLAIN\xa0\x06\0me\0other", size=15)
    note = Noted(at_ns=0, detail=f"tried {PASSCODE}")
    events = REDACTION.events([body, plain, note])
    assert getattr(events[0], "body") == b"*" * len(PASSCODE)  # noqa: B009
    assert getattr(events[1], "data") == b"PLAIN\xa0\x06" + b"*" * 9  # noqa: B009
    assert getattr(events[2], "detail") == "tried <passcode>"  # noqa: B009


@pytest.mark.parametrize(("login", "passcode"), [("guest", "guest"), ("me", "short"), (None, None)])
def test_what_could_be_guessed_is_only_redacted_in_its_place(
    login: str | None, passcode: str | None
) -> None:
    redaction = Redaction(login, passcode)
    text = f"{login} {passcode}"
    assert redaction.text(text) == text
    assert values(sent((("passcode", passcode or "x"),)), redaction=redaction) != [passcode]


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("stomp://me:a@b/c@host:1?profile=x", "stomp://me:<passcode>@host:1?profile=x"),
        ("--target=stomp+ssl://me:a@host:1", "--target=stomp+ssl://me:<passcode>@host:1"),
        ("stomp://me:${SECRET}@host:1", "stomp://me:${SECRET}@host:1"),
        ("stomp://me@host:1?passcode_env=X", "stomp://me@host:1?passcode_env=X"),
        ("host:1", "host:1"),
    ],
)
def test_urls_lose_their_passcode(text: str, redacted: str) -> None:
    assert without_passcode(text) == redacted


def test_logs_are_searched(tmp_path: Path) -> None:
    log = tmp_path / "broker" / "artemis.log"
    log.parent.mkdir()
    log.write_text(f"login of me with {PASSCODE} failed\n")
    (tmp_path / "link").symlink_to(log)
    os.mkfifo(tmp_path / "pipe")
    REDACTION.folder(tmp_path)
    assert log.read_text() == f"login of me with {'*' * len(PASSCODE)} failed\n"
