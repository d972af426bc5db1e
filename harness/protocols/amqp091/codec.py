"""Writes AMQP 0-9-1 frames, methods and contents with any given values, and reads those that either
side sends.

Nothing here decides whether a broker is right. A frame (2.3.5, 4.2.3) is one byte for the type (1
method, 2 content header, 3 content body, 8 heartbeat), two bytes for the channel, four for the
size, a payload and the byte CE. On its channel, a method that carries content is followed by one
content header and as many body frames as needed (4.2.6); :class:`Contents` reassembles them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from brokerproof.harness.protocols.amqp091 import values
from brokerproof.harness.protocols.amqp091.tables import (
    BASIC,
    BY_NAME,
    BY_NUMBERS,
    PROPERTIES,
    Fields,
    MethodTable,
)
from brokerproof.harness.protocols.amqp091.values import Malformed
from brokerproof.harness.protocols.length_prefixed import LengthPrefixedReader
from brokerproof.harness.protocols.length_prefixed import Unreadable as Unreadable

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
"""Types of frames."""
END = 0xCE
OVERHEAD = 8
"""Bytes of a frame in addition to its payload."""
LEAST_FRAME_MAX = 4096
PREFIX = b"AMQP"
PROTOCOL_HEADER, CONTENT_HEADER, CONTENT_BODY, HEART_BEAT = (
    "protocol-header",
    "header",
    "body",
    "heartbeat",
)
"""Names of units that are not methods."""
MOST_READ = 64 * 1024 * 1024
"""The longest frame that the reader accepts."""

FieldList: TypeAlias = tuple[tuple[str, str], ...]


# --- writing --------------------------------------------------------------------------------------


def protocol_header(id: int = 0, major: int = 0, minor: int = 9, revision: int = 1) -> bytes:
    """Return the eight bytes that begin a connection."""
    return PREFIX + bytes((id, major, minor, revision))


def encode_frame(
    type: int, channel: int, payload: bytes = b"", *, size: int | None = None, end: int = END
) -> bytes:
    """Return a frame's bytes. ``size`` (of the payload) and ``end`` are correct unless given."""
    total = len(payload) if size is None else size
    return bytes((type,)) + channel.to_bytes(2) + total.to_bytes(4) + payload + bytes((end,))


def encode_method(name: str, fields: Mapping[str, Any] | None = None) -> bytes:
    """Return the payload of a method frame. Missing fields are 0, empty or false.

    Fields are named as in the specification or with underscores. Raises ``ValueError`` for an
    unknown field or a value that its type cannot hold; :class:`amqp091_values.Raw` is written as it
    is.
    """
    table = BY_NAME[name]
    given = hyphened(fields)
    unknown = given.keys() - {field for field, _ in table.fields}
    if unknown:
        raise ValueError(f"{name} has no field {', '.join(sorted(unknown))}")
    return table.class_id.to_bytes(2) + table.method_id.to_bytes(2) + _fields(table.fields, given)


def hyphened(fields: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return ``fields`` with the names in the specification."""
    return {name.replace("_", "-"): value for name, value in (fields or {}).items()}


_EMPTY: dict[str, Any] = {"shortstr": "", "longstr": b"", "table": {}}


def _fields(table: Fields, given: Mapping[str, Any]) -> bytes:
    data, bits, count = b"", 0, 0
    for name, kind in table:
        if kind == "bit":
            bits |= bool(given.get(name)) << count
            count += 1
            continue
        if count:
            data, bits, count = data + bytes((bits,)), 0, 0
        data += values.encode(given.get(name, _EMPTY.get(kind, 0)), kind)
    return data + bytes((bits,)) if count else data


def start_ok(offered: bytes, login: str | None, passcode: str | None) -> dict[str, Any]:
    """Return the fields of a connection.start-ok that logs in (as guest if there is no login) by
    one of the ``offered`` mechanisms: PLAIN if possible, AMQPLAIN or ANONYMOUS otherwise."""
    names = offered.decode(errors="replace").split()
    known = [name for name in ("PLAIN", "AMQPLAIN", "ANONYMOUS") if name in names]
    mechanism = known[0] if known else "PLAIN"
    login, passcode = login or "guest", passcode or "guest"
    response = b"" if mechanism == "ANONYMOUS" else f"\0{login}\0{passcode}".encode()
    if mechanism == "AMQPLAIN":  # a table without its size
        response = values.encode({"LOGIN": login, "PASSWORD": passcode}, "table")[4:]
    return {"mechanism": mechanism, "response": response, "locale": "en_US"}


def encode_content_header(
    body_size: int,
    properties: Mapping[str, Any] | None = None,
    *,
    class_id: int = BASIC,
    weight: int = 0,
) -> bytes:
    """Return the payload of a content header frame. Raises ``ValueError`` as :func:`encode_method`
    does."""
    given = hyphened(properties)
    unknown = given.keys() - {name for name, _ in PROPERTIES}
    if unknown:
        raise ValueError(f"class basic has no property {', '.join(sorted(unknown))}")
    flags, data = 0, b""
    for bit, (name, kind) in enumerate(PROPERTIES):
        if given.get(name) is not None:
            flags |= 1 << (15 - bit)
            data += values.encode(given[name], kind)
    return (
        class_id.to_bytes(2) + weight.to_bytes(2) + body_size.to_bytes(8) + flags.to_bytes(2) + data
    )


def encode_content(
    channel: int, body: bytes, properties: Mapping[str, Any] | None = None, *, frame_max: int = 0
) -> bytes:
    """Return a content header and bodies in frames of at most ``frame_max`` bytes (0: no limit)."""
    most = frame_max - OVERHEAD if frame_max else max(1, len(body))
    bodies = (encode_frame(BODY, channel, body[at : at + most]) for at in range(0, len(body), most))
    return encode_frame(HEADER, channel, encode_content_header(len(body), properties)) + b"".join(
        bodies
    )


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as read, or a protocol header. ``name`` is the name of the method or other unit.

    ``fields`` are the method's or the content header's (``class-id``, ``weight``, ``body-size``,
    and the properties). ``payload`` is a body. ``size`` includes every byte of the frame.
    """

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    payload: bytes = b""
    channel: int = 0
    type: int = METHOD
    size: int = 0


Read: TypeAlias = Frame | Unreadable


class Reader(LengthPrefixedReader[Frame]):
    """Splits the bytes from one side into protocol headers and frames."""

    def __init__(self, most: int = MOST_READ) -> None:
        super().__init__()
        self.most = most

    def _next(self) -> Read | None:
        head = bytes(self._pending[:OVERHEAD])
        if len(head) < OVERHEAD:
            return None
        if head[:4] == PREFIX:
            del self._pending[:OVERHEAD]
            return Frame(
                PROTOCOL_HEADER,
                dict(zip(("id", "major", "minor", "revision"), head[4:], strict=True)),
                size=8,
            )
        type, channel, size = head[0], int.from_bytes(head[1:3]), int.from_bytes(head[3:7])
        if type not in (METHOD, HEADER, BODY, HEARTBEAT):
            return Unreadable(
                bytes(self._pending), f"a frame has the unknown type {type}", lost=True
            )
        if size > self.most:
            return Unreadable(
                bytes(self._pending),
                f"a frame says it has {size} bytes, above {self.most}",
                lost=True,
            )
        if len(self._pending) < size + OVERHEAD:
            return None
        data = bytes(self._pending[: size + OVERHEAD])
        if data[-1] != END:
            return Unreadable(
                data, f"a frame ends with {data[-1]:#04x} and not with 0xce", lost=True
            )
        del self._pending[: size + OVERHEAD]
        return read_payload(type, channel, data)


def read_payload(type: int, channel: int, data: bytes) -> Read:
    """Return the complete frame in ``data``, whose type and channel are known."""
    payload = data[7:-1]
    if type == BODY:
        return Frame(CONTENT_BODY, {}, payload, channel, type, len(data))
    if type == HEARTBEAT:
        return Frame(HEART_BEAT, {}, payload, channel, type, len(data))
    try:
        name, fields = _content_header(payload) if type == HEADER else _method(payload)
    except Malformed as problem:
        return Unreadable(data, str(problem))
    return Frame(name, fields, b"", channel, type, len(data))


def _method(payload: bytes) -> tuple[str, dict[str, Any]]:
    if len(payload) < 4:
        raise Malformed(
            f"a method of {len(payload)} bytes is too short for its class and method ids"
        )
    numbers = int.from_bytes(payload[:2]), int.from_bytes(payload[2:4])
    table = BY_NUMBERS.get(numbers)
    if table is None:
        raise Malformed(f"there is no method {numbers[1]} in class {numbers[0]}")
    return table.name, _read_fields(table, payload, 4)


def _read_fields(table: MethodTable, data: bytes, at: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    bits = 0
    for name, kind in table.fields:
        if kind == "bit":
            if bits % 8 == 0:
                flags, at = values.decode(data, at, "octet")
            fields[name] = bool(flags >> bits % 8 & 1)
            bits += 1
            continue
        bits = 0
        try:
            fields[name], at = values.decode(data, at, kind)
        except Malformed as problem:
            raise Malformed(f"{table.name}, {name}: {problem}") from None
    if at != len(data):
        raise Malformed(f"{table.name}: {len(data) - at} bytes too many")
    return fields


def _content_header(payload: bytes) -> tuple[str, dict[str, Any]]:
    if len(payload) < 14:
        raise Malformed(f"a content header of {len(payload)} bytes is too short")
    fields: dict[str, Any] = {
        "class-id": int.from_bytes(payload[:2]),
        "weight": int.from_bytes(payload[2:4]),
        "body-size": int.from_bytes(payload[4:12]),
    }
    flags, at = int.from_bytes(payload[12:14]), 14
    for bit, (name, kind) in enumerate(PROPERTIES):
        if flags >> (15 - bit) & 1:
            fields[name], at = values.decode(payload, at, kind)
    if flags & 3 or at != len(payload):
        raise Malformed("a content header has properties that class basic does not have")
    return CONTENT_HEADER, fields


# --- methods with their contents ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Method:
    """A method with its content, or another unit (a protocol header, a stray frame).

    ``properties`` and ``body`` are the content's, which is not ``complete`` if another frame
    interrupted it. ``size`` is the number of bytes in all frames, ``frames`` the number in each.
    """

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    channel: int = 0
    properties: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""
    size: int = 0
    frames: tuple[int, ...] = ()
    complete: bool = True

    def __getitem__(self, name: str) -> Any:
        """Return a field or property as plain Python, with text as ``str``. Raises ``KeyError`` if
        there is none."""
        name = name.replace("_", "-")
        value = self.fields[name] if name in self.fields else self.properties[name]
        return values.text(value) if isinstance(value, bytes) else values.plain(value)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def listed(self) -> FieldList:
        listed = [("channel", str(self.channel))]
        listed += [
            (name, values.words(value))
            for name, value in (*self.fields.items(), *self.properties.items())
        ]
        if not self.complete:
            listed.append(("complete", "false"))
        return tuple(listed)

    def brief(self) -> str:
        inside = " ".join(
            f"{name}={value}"
            for name, value in self.listed()[1:]
            if value not in ("", "false", "{}")
        )
        body = f" {len(self.body)} bytes {self.body[:40]!r}" if self.body else ""
        return f"{self.name}({self.channel}) [{inside}]{body}"[:2000]


_USUAL = {"class-id": BASIC, "weight": 0}


@dataclass(slots=True)
class _Open:
    """A method whose content is incomplete. ``due``: missing bytes; None before the header."""

    method: Method
    due: int | None = None
    parts: list[bytes] = field(default_factory=list)

    def add(self, frame: Frame) -> None:
        """Add a content header or the next body. The content also ends if more bytes arrive than
        were announced, because nothing is judged here."""
        self.method = replace(
            self.method,
            size=self.method.size + frame.size,
            frames=(*self.method.frames, frame.size),
        )
        if self.due is None:
            self.due = frame.fields["body-size"]
            self.method = replace(
                self.method,
                properties={
                    name: value
                    for name, value in frame.fields.items()
                    if name != "body-size" and _USUAL.get(name) != value
                },
            )
        else:
            self.parts.append(frame.payload)
            self.due = max(0, self.due - len(frame.payload))

    def done(self) -> Method:
        return replace(self.method, body=b"".join(self.parts), complete=self.due == 0)


class Contents:
    """Assembles one direction's methods with their contents, one at a time on each channel."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}

    def feed(self, frame: Frame) -> Iterator[Method]:
        """Return the methods that ``frame`` completes: one method, or an interrupted one followed
        by its interruption."""
        begun = self._open.get(frame.channel)
        if (
            begun is not None
            and frame.type in (HEADER, BODY)
            and (frame.type == HEADER) is (begun.due is None)
        ):
            begun.add(frame)
            if begun.due == 0:
                yield self._open.pop(frame.channel).done()
            return
        if begun is not None:
            yield self._open.pop(frame.channel).done()
        method = Method(
            frame.name, frame.fields, frame.channel, {}, frame.payload, frame.size, (frame.size,)
        )
        table = BY_NAME.get(frame.name)
        if table is not None and table.content:
            self._open[frame.channel] = _Open(method)
        else:
            yield method
