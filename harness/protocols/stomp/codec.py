"""A simple STOMP codec for peers that can misbehave: it writes any given values and reads a
broker's bytes.

Nothing here decides whether a broker is right. The reader keeps everything that it could read (raw
size, the order of headers, repeated headers) and names what it could not read; the suites judge.

Escapes by version: 1.0 has none; 1.1 has ``\\n``, ``\\c`` and ``\\\\`` (STOMP11-ENC-04 to -06); 1.2
adds ``\\r`` (STOMP12-ENC-04). CONNECT, STOMP and CONNECTED are never escaped (STOMP11-ENC-03,
STOMP12-ENC-03).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from brokerproof.harness.model.wire_numbers import whole_number

HeaderList: TypeAlias = tuple[tuple[str, str], ...]
HeadersLike: TypeAlias = Mapping[str, str | int] | Iterable[tuple[str, str | int]]

VERSIONS = ("1.0", "1.1", "1.2")
UNESCAPED = frozenset({"CONNECT", "STOMP", "CONNECTED"})

_ESCAPES = {
    "1.0": {},
    "1.1": {"\\": "\\\\", "\n": "\\n", ":": "\\c"},
    "1.2": {"\\": "\\\\", "\n": "\\n", ":": "\\c", "\r": "\\r"},
}
_TRANSLATIONS = {version: str.maketrans(table) for version, table in _ESCAPES.items()}


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, as read or to be written. ``size`` includes all its bytes, the NUL, and an end of
    line that directly followed the NUL in the same read."""

    command: str
    headers: HeaderList = ()
    body: bytes = b""
    size: int = 0

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of header ``name`` (STOMP12-REPEAT-02)."""
        for header, value in self.headers:
            if header == name:
                return value
        return default

    def __getitem__(self, name: str) -> str:
        """Return the first value of header ``name``. Raises ``KeyError`` if the frame has none."""
        value = self.get(name)
        if value is None:
            raise KeyError(f"{self.command} has no header {name!r}")
        return value

    def brief(self) -> str:
        headers = " ".join(f"{name}:{value}" for name, value in self.headers)
        body = f" {self.body[:60]!r}" if self.body else ""
        return f"{self.command} [{headers}]{body}"[:2000]


@dataclass(frozen=True, slots=True)
class Eol:
    """``size`` bytes of line ends outside a frame: heartbeats."""

    size: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Bytes that are not a frame; the reader stops at them."""

    data: bytes
    reason: str


Item: TypeAlias = Frame | Eol | Unreadable


def header_list(headers: HeadersLike) -> HeaderList:
    """Return headers, in any accepted form, as a tuple of pairs, in order and with repeats."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, str(value)) for name, value in pairs)


def escape(text: str, version: str) -> str:
    return text.translate(_TRANSLATIONS[version])


def unescape(text: str, version: str) -> str:
    """Undo escapes. Raises ``ValueError`` for an escape that ``version`` does not define."""
    if version == "1.0" or "\\" not in text:
        return text
    known = {written[1]: meant for meant, written in _ESCAPES[version].items()}
    parts = []
    position = 0
    while position < len(text):
        if text[position] == "\\":
            position += 1
            if text[position : position + 1] not in known:
                raise ValueError(f"undefined escape \\{text[position : position + 1]}")
            parts.append(known[text[position]])
        else:
            parts.append(text[position])
        position += 1
    return "".join(parts)


def encode(
    command: str,
    headers: HeadersLike = (),
    body: bytes = b"",
    *,
    version: str = "1.2",
    eol: bytes = b"\n",
) -> bytes:
    """Return a frame's bytes, neither adding nor checking any header."""
    quote = (lambda text: text) if command in UNESCAPED else (lambda text: escape(text, version))
    lines = [command.encode()]
    lines += [f"{quote(name)}:{quote(value)}".encode() for name, value in header_list(headers)]
    return eol.join([*lines, b"", b""]) + body + b"\x00"


class Reader:
    """Splits input into frames and line ends. ``version`` may be set once CONNECTED states it."""

    def __init__(self, version: str = "1.0") -> None:
        self.version = version
        self._pending = bytearray()
        self._broken = False

    @property
    def pending(self) -> int:
        return len(self._pending)

    def feed(self, data: bytes) -> Iterator[Item]:
        """Return the items that ``data`` completes. Each frame is read by the current version, so
        the caller may change the version between frames."""
        if self._broken:
            yield Unreadable(data, "follows bytes that were not a frame")
            return
        self._pending += data
        while self._pending:
            item = self._next()
            if item is None:
                return
            self._broken = isinstance(item, Unreadable)
            yield item
            if self._broken:
                return

    def skip(self, size: int) -> int:
        """Record that ``size`` bytes will never arrive. Missing bytes of a frame with a
        content-length are replaced by zeros; return their number. If more bytes are missing, the
        next frame cannot be found, and this reader is unusable from then on."""
        head_end, start = self._head_end()
        if self._broken or head_end < 0:
            return 0
        lines = bytes(self._pending[:head_end]).splitlines()
        text = next(
            (line[15:].strip() for line in lines if line.startswith(b"content-length:")), b""
        )
        length = whole_number(text.decode("latin-1"))
        if length is None:
            return 0
        taken = min(size, start + length + 1 - len(self._pending))
        self._pending += bytes(taken)
        return taken

    def _next(self) -> Item | None:
        if self._pending[0] in b"\r\n":
            blank = len(self._pending) - len(self._pending.lstrip(b"\r\n"))
            del self._pending[:blank]
            return Eol(blank)
        head_end, body_start = self._head_end()
        if head_end < 0:
            return None
        try:
            lines = self._pending[:head_end].decode().split("\n")
        except UnicodeDecodeError as problem:
            return Unreadable(
                bytes(self._pending),
                f"header is not UTF-8 ({problem.reason} at byte {problem.start})",
            )
        command, *rest = (line.removesuffix("\r") for line in lines)
        headers = []
        for line in rest:
            name, colon, value = line.partition(":")
            if not colon:
                return Unreadable(bytes(self._pending), f"header line without a colon: {line!r}")
            try:
                headers.append(self._plain(command, name, value))
            except ValueError as problem:
                return Unreadable(bytes(self._pending), f"{problem} in header line {line!r}")
        return self._with_body(command, tuple(headers), body_start)

    def _head_end(self) -> tuple[int, int]:
        """Return where the header lines end and the body starts; (-1, -1) until both have
        arrived."""
        plain = self._pending.find(b"\n\n")
        carriage = self._pending.find(b"\n\r\n", 0, plain + 2 if plain >= 0 else None)
        if carriage >= 0:
            return carriage, carriage + 3
        return (plain, plain + 2) if plain >= 0 else (-1, -1)

    def _plain(self, command: str, name: str, value: str) -> tuple[str, str]:
        if command in UNESCAPED:
            return name, value
        return unescape(name, self.version), unescape(value, self.version)

    def _with_body(self, command: str, headers: HeaderList, start: int) -> Item | None:
        text = next((value for name, value in headers if name == "content-length"), None)
        if text is None:
            end = self._pending.find(b"\x00", start)
            if end < 0:
                return None
        elif (length := whole_number(text.strip(" "))) is None:
            return Unreadable(bytes(self._pending), f"content-length is no number: {text[:40]!r}")
        else:
            end = start + length
            if len(self._pending) <= end:
                return None
            if self._pending[end] != 0:
                return Unreadable(
                    bytes(self._pending),
                    f"no NUL after the {length} bytes that content-length announced",
                )
        size = end + 1
        if self._pending[size : size + 1] == b"\n":
            size += 1
        elif self._pending[size : size + 2] == b"\r\n":
            size += 2
        body = bytes(self._pending[start:end])
        del self._pending[:size]
        return Frame(command, headers, body, size)
