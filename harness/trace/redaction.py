"""Removes credentials from everything that a run keeps, before it is written.

A passcode is recognised by its place in a protocol (:data:`HEADERS`) and, unless it is guessable,
by its value anywhere in bytes and texts, even if percent-encoded, in hexadecimal or in base64. The
placeholder names the header and says whether the passcode was the target's own, so wrong passcodes
stay distinguishable. In bytes, the placeholder has the length of the original. Recorded sizes do
not change.

A login is not a secret. A passcode that is short or equal to its login would match half of all
texts, so it is redacted only where a protocol places it."""

import base64
import dataclasses
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from brokerproof.harness.trace.events import (
    RECORDED_BYTES,
    Event,
    FrameReceived,
    FrameSent,
    Headers,
    OctetsSent,
)

HEADERS: Mapping[str, frozenset[str]] = {
    "STOMP": frozenset({"passcode", "password", "authorization"}),
    "AMQP": frozenset({"initial-response", "response"}),
    "AMQP091": frozenset({"response"}),
    "CORE": frozenset({"password"}),
    "OPENWIRE": frozenset({"password"}),
    "HTTP": frozenset({"authorization"}),
}
"""The headers and fields that hold credentials, by protocol."""
COMMANDS = frozenset(
    {
        *("CONNECT", "STOMP", "sasl-init", "sasl-response"),
        *("connection.start-ok", "connection.secure-ok", "createsession", "ConnectionInfo"),
    }
)
"""The frames whose headers are examined by name; those of HTTP always are."""
SHORTEST = 6
"""The length of the shortest passcode that is searched for by its value."""
MOST_LOG_BYTES = 256 << 20
"""The most bytes of a log. A larger log is cut, because it could not be searched."""

_LINE = re.compile(rb"(?im)^(?:passcode|password|authorization)[ \t]*:([^\r\n]+)")
_PLAIN = re.compile(rb"(?s)PLAIN(?:\xa0.|\xb0.{4}|\x00.{3}|[ \r\n]+)(\x00[^\x00]*\x00.+)")
_IN_URL = re.compile(r"(://[^:@/\s]*):(?!\$\{[^}]*\}@).*@")
IN_URL = "<passcode>"


def without_passcode(text: str) -> str:
    """Return ``text`` with :data:`IN_URL` for each passcode in a URL. A ``${VARIABLE}`` is not a
    passcode and stays."""
    return _IN_URL.sub(rf"\1:{IN_URL}@", text)


class Redaction:
    """Removes the credentials of one target from what is recorded."""

    def __init__(self, login: str | None = None, passcode: str | None = None) -> None:
        self._login = login or ""
        self._passcode = passcode or ""
        guessable = len(self._passcode) < SHORTEST or self._passcode == login
        spellings = [] if guessable else sorted(set(_spellings(self._passcode)), key=len)
        self._values = re.compile(b"|".join(map(re.escape, reversed(spellings))) or rb"(?!)")
        self._beginning = b"" if guessable else self._passcode.encode()
        self._right = {self._passcode, *_responses(self._login, self._passcode)}

    @property
    def by_value(self) -> bool:
        return bool(self._beginning)

    def text(self, text: str) -> str:
        """Return ``text`` with a placeholder for each occurrence of the passcode."""
        if not self._beginning:
            return text
        data = text.encode("utf-8", "surrogatepass")
        if not self._values.search(data):
            return text
        return self._values.sub(b"<passcode>", data).decode("utf-8", "surrogatepass")

    def data(self, data: bytes, *, structure: bool = False) -> bytes:
        """Return ``data``, of the same length, with asterisks for credentials and, with
        ``structure``, for header lines and SASL responses that contain any."""
        spans = [match.span() for match in self._values.finditer(data)] if self._beginning else []
        if self._beginning and len(data) >= RECORDED_BYTES:
            spans += self._cut_off(data)
        if structure and (b":" in data or b"PLAIN" in data):
            for pattern in (_LINE, _PLAIN):
                spans += [match.span(1) for match in pattern.finditer(data)]
        if not spans:
            return data
        redacted = bytearray(data)
        for start, end in spans:
            redacted[start:end] = b"*" * (end - start)
        return bytes(redacted)

    def _cut_off(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield the span of a passcode truncated at the end of a record."""
        for length in range(len(self._beginning) - 1, 3, -1):
            if data.endswith(self._beginning[:length]):
                yield len(data) - length, len(data)
                return

    def events(self, events: Sequence[Event]) -> list[Event]:
        """Return the events of one case in order, without credentials."""
        others: dict[tuple[str, str], str] = {}
        redacted = [self._event(event, others) for event in events]
        self._join_pieces(redacted)
        return redacted

    def _event(self, event: Event, others: dict[tuple[str, str], str]) -> Event:
        if isinstance(event, FrameSent | FrameReceived):
            headers = self._headers(event.protocol, event.command, event.headers, others)
            body = self.data(event.body) if self._beginning else event.body
            if headers is event.headers and body is event.body:
                return event
            return dataclasses.replace(event, headers=headers, body=body)
        changes: dict[str, Any] = {}
        if (data := getattr(event, "data", None)) is not None:
            changes["data"] = self.data(data, structure=True)
        if self._beginning and (detail := getattr(event, "detail", None)) is not None:
            changes["detail"] = self.text(detail)
        if all(value == getattr(event, name) for name, value in changes.items()):
            return event
        return dataclasses.replace(event, **changes)

    def _headers(
        self, protocol: str, command: str, headers: Headers, others: dict[tuple[str, str], str]
    ) -> Headers:
        names = HEADERS.get(protocol, frozenset())
        named = command in COMMANDS or protocol == "HTTP"
        if not named and not self._beginning:
            return headers
        redacted = tuple(
            (name, self._placeholder(name, value, others))
            if named and name.lower() in names
            else (name, self.text(value))
            for name, value in headers
        )
        return headers if redacted == headers else redacted

    def _placeholder(self, name: str, value: str, others: dict[tuple[str, str], str]) -> str:
        """Return ``<passcode>``, or for the wrong passcodes of a case ``<other passcode>`` and so
        on. An empty value stays, since it reveals no secret."""
        if not value or value == "0x":
            return value
        if self._passcode and value in self._right:
            return f"<{name}>"
        if (name, value) not in others:
            count = 1 + sum(known == name for known, _ in others)
            others[name, value] = f"<other {name}>" if count == 1 else f"<other {name} {count}>"
        return others[name, value]

    def _join_pieces(self, events: list[Event]) -> None:
        """Remove credentials from bytes that were written in pieces, none of which contains them in
        full."""
        by_connection: dict[int | None, list[int]] = {}
        for place, event in enumerate(events):
            if isinstance(event, OctetsSent) and len(event.data) == event.size:
                by_connection.setdefault(event.conn, []).append(place)
        for places in by_connection.values():
            if len(places) < 2:
                continue
            pieces = [getattr(events[place], "data") for place in places]  # noqa: B009
            whole = b"".join(pieces)
            redacted = self.data(whole, structure=True)
            if redacted == whole:
                continue
            begin = 0
            for place, piece in zip(places, pieces, strict=True):
                end = begin + len(piece)
                events[place] = dataclasses.replace(  # type: ignore[call-arg]
                    events[place], data=redacted[begin:end]
                )
                begin = end

    def folder(self, folder: Path) -> None:
        """Remove the passcode from every file below ``folder``, such as the logs of brokers."""
        if not self._beginning:
            return
        for path in sorted(folder.rglob("*")):
            if not path.is_file() or path.is_symlink():
                continue
            if path.stat().st_size > MOST_LOG_BYTES:
                with path.open("r+b") as file:
                    file.truncate(MOST_LOG_BYTES)
            data = path.read_bytes()
            redacted = self.data(data)
            if redacted != data:
                path.write_bytes(redacted)


def _responses(login: str, passcode: str) -> Iterator[str]:
    """Yield the SASL responses that are derived from the passcode, as they appear in the trace."""
    tail = f"\0{login}\0{passcode}".encode()
    for start in ("", login):
        yield f"0x{(start.encode() + tail).hex()}"
        yield start + tail.decode()
    table = b"".join(
        (
            *(b"\x05LOGINS", len(login.encode()).to_bytes(4, "big"), login.encode()),
            *(b"\x08PASSWORDS", len(passcode.encode()).to_bytes(4, "big"), passcode.encode()),
        )
    )
    yield table.decode("utf-8", "replace")
    yield table.decode("latin-1")


def _spellings(passcode: str) -> Iterator[bytes]:
    """Yield the forms in which a passcode may appear in bytes and texts."""
    raw = passcode.encode()
    texts = [passcode, quote(passcode), quote(passcode, safe=""), html.escape(passcode)]
    texts += [json.dumps(passcode)[1:-1], json.dumps(passcode, ensure_ascii=False)[1:-1]]
    texts += [repr(passcode)[1:-1], repr(raw)[2:-1]]
    texts += [passcode.replace("\\", "\\\\").replace(":", "\\c")]
    for text in texts:
        yield text.encode()
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    for padding in range(3):
        for encoded in (base64.b64encode, base64.urlsafe_b64encode):
            # The base64 form of any text with the passcode contains these characters.
            whole = encoded(bytes(padding) + raw)
            first = -(-padding * 4 // 3)
            last = (padding + len(raw)) * 4 // 3
            if last - first >= SHORTEST:
                yield whole[first:last]
