"""The frames of the mini-brokers: a parser and an encoder for STOMP 1.0, 1.1 and 1.2."""

from collections.abc import Iterator
from dataclasses import dataclass

VERSIONS = ("1.0", "1.1", "1.2")
MOST_HEADERS, LONGEST_LINE, LARGEST_BODY = 1000, 64 * 1024, 2 * 1024 * 1024
NOT_ESCAPED = ("CONNECT", "STOMP", "CONNECTED")
ESCAPES = {
    "1.0": {"\n": " "},
    "1.1": {"\\": "\\\\", "\n": "\\n", ":": "\\c"},
    "1.2": {"\\": "\\\\", "\n": "\\n", ":": "\\c", "\r": "\\r"},
}

Headers = list[tuple[str, str]]


class BadFrame(Exception):
    """A frame that the broker refuses, with the ERROR's message."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A command, its headers in order, and a body."""

    command: str
    headers: Headers
    body: bytes = b""

    def get(self, name: str) -> str | None:
        """Return the first header of this name."""
        return next((value for header, value in self.headers if header == name), None)

    def need(self, name: str) -> str:
        """Return the first header of this name. Raises :class:`BadFrame`."""
        value = self.get(name)
        if not value:
            raise BadFrame(f"{self.command} needs the header {name}")
        return value


def encode(frame: Frame, version: str, *, plain: str = "") -> bytes:
    """Return the bytes of ``frame``. The characters in ``plain`` are not escaped."""
    known = {} if frame.command in NOT_ESCAPED else ESCAPES[version]
    escapes = {letter: escape for letter, escape in known.items() if letter not in plain}
    lines = [frame.command]
    for name, value in frame.headers:
        lines.append(f"{_escaped(name, escapes)}:{_escaped(value, escapes)}")
    return "\n".join([*lines, "", ""]).encode() + frame.body + b"\0"


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(letter, letter) for letter in text)


def unescape(text: str, version: str) -> str:
    """Return ``text`` unescaped. Raises :class:`BadFrame` for an escape that ``version`` lacks."""
    if version == "1.0":
        return text
    meanings = {escape: letter for letter, escape in ESCAPES[version].items()}
    pieces = []
    letters = iter(text)
    for letter in letters:
        if letter == "\\":
            letter = "\\" + next(letters, "")
            if letter not in meanings:
                raise BadFrame(f"{letter} is not an escape of STOMP {version}")
            letter = meanings[letter]
        pieces.append(letter)
    return "".join(pieces)


class Parser:
    """Turns the bytes of a connection into frames, wherever they are split."""

    def __init__(self) -> None:
        self.version = "1.0"
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Return the frames that ``data`` completes. Raises :class:`BadFrame`."""
        self._buffer += data
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> Frame | None:
        while self._buffer[:1] in (b"\n", b"\r"):
            if self._buffer[:1] == b"\r" and self._buffer[1:2] != b"\n":
                if len(self._buffer) > 1:
                    raise BadFrame("a CR stands alone between frames")
                return None
            del self._buffer[0]
        lines, position = [], 0
        while (end := self._buffer.find(b"\n", position)) >= 0:
            line = bytes(self._buffer[position:end])
            position = end + 1
            if not line.rstrip(b"\r"):
                return self._body(lines, position)
            lines.append(line)
            if len(lines) > MOST_HEADERS or len(line) > LONGEST_LINE:
                raise BadFrame("the headers are too large")
        if len(self._buffer) - position > LONGEST_LINE:
            raise BadFrame("a line is too long")
        if b"\0" in self._buffer:
            raise BadFrame("a NUL stands before the end of the headers")
        return None

    def _body(self, lines: list[bytes], start: int) -> Frame | None:
        command, headers = self._headers(lines)
        length = next((value for name, value in headers if name == "content-length"), None)
        if length is None:
            end = self._buffer.find(b"\0", start)
            if end < 0 and len(self._buffer) - start > LARGEST_BODY:
                raise BadFrame("the body is too large")
        else:
            if not (length.isascii() and length.isdecimal()):
                raise BadFrame(f"content-length is {length}, which is not a number")
            if int(length) > LARGEST_BODY:
                raise BadFrame(f"the body of {length} bytes is too large")
            end = start + int(length)
            if end >= len(self._buffer):
                return None
            if self._buffer[end] != 0:
                raise BadFrame(f"no NUL follows the body of {length} bytes")
        if end < 0:
            return None
        body = bytes(self._buffer[start:end])
        del self._buffer[: end + 1]
        return Frame(command, headers, body)

    def _headers(self, lines: list[bytes]) -> tuple[str, Headers]:
        try:
            command, *texts = [line.decode() for line in lines] or [""]
        except UnicodeDecodeError:
            raise BadFrame("a header is not UTF-8") from None
        is_connect = command.rstrip("\r") in ("CONNECT", "STOMP")
        if is_connect or self.version == "1.2":
            command = command.removesuffix("\r")
            texts = [text.removesuffix("\r") for text in texts]
        version = "1.0" if is_connect else self.version
        headers = []
        for text in texts:
            name, colon, value = text.partition(":")
            if not colon or not name:
                raise BadFrame(f"the header {text!r} has no name and value")
            if version == "1.2" and (":" in value or "\r" in text):
                raise BadFrame(f"the header {text!r} has a letter that should be escaped")
            headers.append((unescape(name, version), unescape(value, version)))
        return command, headers
