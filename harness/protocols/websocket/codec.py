"""A simple WebSocket codec for peers that may misbehave (RFC 6455). It writes any given frame and
reads a server's bytes: first the answer to the handshake, then frames.

Nothing here decides whether a server is right. The codec keeps what a judge may need to know about
a frame: whether it was masked, its reserved bits, and whether its length had the shortest form.
"""

import base64
import enum
import hashlib
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from brokerproof.harness.model.wire_numbers import whole_number

_IDENTIFIER = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_HEAD_END = b"\r\n\r\n"


class Op(enum.IntEnum):
    CONTINUATION = 0x0
    TEXT = 0x1
    BINARY = 0x2
    CLOSE = 0x8
    PING = 0x9
    PONG = 0xA


@dataclass(frozen=True, slots=True)
class Reply:
    """The head of an HTTP response. Field names are in lower case, in the order received."""

    status: int
    fields: tuple[tuple[str, str], ...]
    size: int = 0

    def values(self, name: str) -> list[str]:
        return [value for field, value in self.fields if field == name.lower()]

    def brief(self) -> str:
        return (
            f"HTTP {self.status} [{', '.join(f'{name}: {value}' for name, value in self.fields)}]"[
                :400
            ]
        )


@dataclass(frozen=True, slots=True)
class WsFrame:
    op: int
    payload: bytes = b""
    fin: bool = True
    reserved: int = 0
    """The three reserved bits as a number from 0 to 7; the first bit has the value 4."""
    masked: bool = False
    shortest: bool = True
    """True if the length was in the shortest form."""
    size: int = 0

    @property
    def name(self) -> str:
        """The opcode's name, or its number if it has no name."""
        return Op(self.op).name if self.op in set(Op) else f"OPCODE-{self.op}"

    @property
    def is_control(self) -> bool:
        """True if the frame is not part of a message."""
        return self.op >= Op.CLOSE

    @property
    def code(self) -> int | None:
        """The status code of a Close; None if it has none."""
        return (
            int.from_bytes(self.payload[:2])
            if self.op == Op.CLOSE and len(self.payload) >= 2
            else None
        )

    def brief(self) -> str:
        marks = [] if self.fin else ["more follows"]
        marks += ["masked"] if self.masked else []
        marks += [f"reserved bits {self.reserved:03b}"] if self.reserved else []
        words = (
            f" {self.code} {self.payload[2:60]!r}"
            if self.code is not None
            else f" {self.payload[:60]!r}"
        )
        beside = f" ({', '.join(marks)})" if marks else ""
        return f"{self.name}{words if self.payload else ''}{beside}"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Bytes that are not an HTTP response; the reader stops at them."""

    data: bytes
    reason: str

    def brief(self) -> str:
        return f"UNREADABLE ({self.reason}) {self.data[:60]!r}"


Item: TypeAlias = Reply | WsFrame | Unreadable


def request(
    host: str | None,
    key: str | None,
    fields: Iterable[tuple[str, str]] = (),
    *,
    line: str = "GET / HTTP/1.1",
) -> bytes:
    """Return the client's handshake. ``fields`` follow Host and the key (None omits the key)."""
    known = (("Host", host), ("Sec-WebSocket-Key", key))
    head = [f"{name}: {value}" for name, value in (*known, *fields) if value is not None]
    return "\r\n".join([line, *head, "", ""]).encode()


UPGRADE = (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13"))
"""The fields that every handshake has in addition to Host and the key."""


def key(seed: bytes) -> str:
    """Return a value for Sec-WebSocket-Key that depends only on ``seed``."""
    return base64.b64encode(hashlib.sha256(seed).digest()[:16]).decode()


def accept(key: str) -> str:
    """Return the value of Sec-WebSocket-Accept for that key (RFC6455-HS-05)."""
    return base64.b64encode(hashlib.sha1(key.encode() + _IDENTIFIER).digest()).decode()


def encode(
    op: int,
    payload: bytes = b"",
    *,
    mask: bytes | None,
    fin: bool = True,
    reserved: int = 0,
    announce: int | None = None,
    form: int | None = None,
) -> bytes:
    """Return a frame's bytes. ``mask`` is four bytes, or None for an unmasked frame.

    ``announce`` replaces the payload's own length. ``form`` (7, 16 or 64 bits) forces that form of
    the length, even if a shorter form would do.
    """
    length = len(payload) if announce is None else announce
    if form is None:
        form = 7 if length < 126 else 16 if length < 1 << 16 else 64
    first, flag = (fin << 7) | (reserved << 4) | op, 0 if mask is None else 0x80
    match form:
        case 7:
            head = struct.pack("!BB", first, flag | length)
        case 16:
            head = struct.pack("!BBH", first, flag | 126, length)
        case _:
            head = struct.pack("!BBQ", first, flag | 127, length)
    return head + payload if mask is None else head + mask + masked(payload, mask)


def masked(payload: bytes, mask: bytes) -> bytes:
    """Return ``payload`` with the mask applied or removed."""
    size = len(payload)
    pattern = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload) ^ int.from_bytes(pattern)).to_bytes(size)


class Reader:
    """Splits a server's bytes into its answer to the handshake and the frames after it. If the
    answer is not 101, nothing more is read."""

    def __init__(self, *, upgraded: bool = False) -> None:
        """``upgraded``: the handshake is over, and frames arrive, from either side."""
        self._rest = b""
        self._upgraded, self._done = upgraded, False

    def feed(self, data: bytes) -> Iterator[Item]:
        self._rest += data
        while (
            not self._done
            and (item := self._frame() if self._upgraded else self._reply()) is not None
        ):
            yield item

    def _reply(self) -> Reply | Unreadable | None:
        end = self._rest.find(_HEAD_END)
        if end < 0:
            return self._unreadable() if not b"HTTP/1.1 ".startswith(self._rest[:9]) else None
        head, self._rest = self._rest[:end].decode("latin-1"), self._rest[end + len(_HEAD_END) :]
        line, *lines = head.split("\r\n")
        words = line.split(" ", 2)
        if not words[0].startswith("HTTP/1.") or len(words) < 2 or whole_number(words[1]) is None:
            self._rest = head.encode("latin-1")
            return self._unreadable()
        pairs = (line.partition(":") for line in lines)
        status = int(words[1])
        self._upgraded, self._done = status == 101, status != 101
        return Reply(
            status,
            tuple((name.strip().lower(), value.strip()) for name, _, value in pairs),
            end + len(_HEAD_END),
        )

    def _unreadable(self) -> Unreadable:
        self._done = True
        return Unreadable(self._rest, "this is not an HTTP response")

    def _frame(self) -> WsFrame | None:
        rest = self._rest
        if len(rest) < 2:
            return None
        length, at = rest[1] & 0x7F, 2
        size = {126: 2, 127: 8}.get(length, 0)
        if size:
            if len(rest) < at + size:
                return None
            length, at = int.from_bytes(rest[at : at + size]), at + size
        mask = rest[at : at + 4] if rest[1] & 0x80 else b""
        at += 4 if rest[1] & 0x80 else 0
        if len(rest) < at + length:
            return None
        payload, self._rest = rest[at : at + length], rest[at + length :]
        shortest = not size or length >= (126 if size == 2 else 1 << 16)
        return WsFrame(
            op=rest[0] & 0x0F,
            payload=masked(payload, mask) if mask else payload,
            fin=bool(rest[0] & 0x80),
            reserved=(rest[0] >> 4) & 7,
            masked=bool(mask),
            shortest=shortest,
            size=at + length,
        )
