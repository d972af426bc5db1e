"""Bytes in, frames out: incremental, for any fragmentation, with bounded memory.

Usually a chunk holds whole frames. They are cut out of it in place: find the blank line, look up
the head by its bytes (producers repeat theirs, all but the receipt's value; see
:data:`REMEMBERED`), take the body by its length or up to the NUL.

An incomplete frame at the end of a chunk moves to its own buffer. From then on each byte is
examined once, only to learn whether the frame is complete or exceeds a limit; then the frame is
read from its start as usual. So a frame gives the same result or the same refusal for any
fragmentation, and the buffer never holds more than the limits allow plus one chunk:

* a line of more than ``limits.line`` bytes without its end of line, also one that never ends,
* more than ``limits.headers`` header lines,
* a body announced with, or reaching, more than ``limits.body`` bytes,
* a body on a frame that may have none, from its first byte

are refused as soon as they are seen (STOMP11-LIMIT-01, STOMP12-LIMIT-01, STOMP11-BODY-02,
STOMP12-BODY-02).

Where large bodies are kept in files (:meth:`FrameParser.spool_from`), an incomplete SEND body of
that size goes there as it arrives, and is not kept here.
"""

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from brokerproof.reference_broker.kernel.large_body import LargeBody, LargeBodySlice
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.frame import Frame, Head
from brokerproof.reference_broker.protocols.stomp.grammar import Grammar
from brokerproof.reference_broker.protocols.stomp.refusal import Fault, Refusal, shown
from brokerproof.reference_broker.settings.acceptor import StompLimits

REMEMBERED = 64
"""The number of heads that a parser remembers, of at most :data:`SHORT` bytes each."""
SHORT = 1024

_CR = 13
_LF_LINES = re.compile(rb"\n*")
_CRLF_LINES = re.compile(rb"(?:\r?\n)*")
_LF_BLANK = re.compile(rb"\n\n")
_CRLF_BLANK = re.compile(rb"\n\r?\n")
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_PLAIN_HEADER = re.compile(r"\n([a-z-]+):([!-9;-\[\]-~]+)(?=\n|\Z)")
"""A header that every grammar reads alike: a name like those in the specification, and a value of
visible ASCII without colons and backslashes."""


class Sink(Protocol):
    """A file for a large body
    (:class:`brokerproof.reference_broker.persistence.large_bodies.Spool`)."""

    @property
    def length(self) -> int: ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> LargeBody: ...

    def abandon(self) -> None: ...


class FrameParser:
    """Reads frames by one grammar: call ``feed``, then ``next`` until it returns None."""

    def __init__(self, grammar: Grammar, limits: StompLimits) -> None:
        self._grammar = grammar
        self._limits = limits
        # A plain head of this size breaks no limit: a header line has at least four bytes. An
        # opening is always read line by line: its command is refused before the frame has ended.
        self._plain_size = 0 if grammar.version is None else min(4 * limits.headers, limits.line)
        self._lines = _CRLF_LINES if grammar.crlf else _LF_LINES
        self._blank = _CRLF_BLANK if grammar.crlf else _LF_BLANK
        self._heads: dict[bytes | tuple[bytes, bytes], Head] = {}
        self._data = b""
        self._at = 0
        # The incomplete frame, and how far it has been examined.
        self._pending = bytearray()
        self._looked = 0
        self._line_at = 0
        self._line_count = 0
        self._body_at: int | None = None
        self._whole: int | None = None
        # The frame whose body goes to a sink, and how many bytes of the body are missing (None: it
        # ends with a NUL).
        self._new_sink: Callable[[bool], Sink | None] | None = None
        self._spool_size = 0
        self._sink: Sink | None = None
        self._sink_head: Head | None = None
        self._left: int | None = None
        self._spooled: Frame | None = None

    def spool_from(self, size: int, new_sink: Callable[[bool], Sink | None]) -> None:
        """Write the body of a SEND to a file from ``new_sink`` if it has ``size`` bytes or more.
        ``new_sink`` gets True for text; None keeps all bodies in memory."""
        self._spool_size = max(size, 1)
        self._new_sink = new_sink

    def abandon(self) -> None:
        """Drop an unfinished large body, because no more bytes will arrive."""
        if self._sink is not None:
            self._sink.abandon()
            self._sink = None

    @property
    def buffered(self) -> int:
        """The number of bytes held."""
        return len(self._pending) + len(self._data) - self._at

    def rest(self) -> bytes:
        """Return the unread bytes, for the parser that takes over."""
        return bytes(self._pending) + self._data[self._at :]

    def feed(self, data: bytes) -> None:
        """Append bytes. Raises :class:`Refusal` if the incomplete frame exceeds a limit."""
        if self._sink is not None:
            data = self._pour(self._sink, data)
            if self._sink is not None:
                return
        if self._pending:
            self._pending += data
            if not self._is_complete():
                return
            data = bytes(self._pending)
            self._pending = bytearray()
        self._data = data
        self._at = 0

    def next(self) -> Frame | None:
        """Return the next frame, or None if more bytes are needed. Raises :class:`Refusal` for
        bytes that are not a frame."""
        if self._spooled is not None:
            spooled, self._spooled = self._spooled, None
            return spooled
        data, at = self._data, self._at
        if at < len(data) and data[at] <= _CR:
            end_of_lines = self._lines.match(data, at)
            assert end_of_lines is not None
            at = end_of_lines.end()
        if at == len(data):
            self._data, self._at = b"", 0
            return None
        blank = self._blank.search(data, at)
        if blank is None:
            self._wait(at)
            return None
        block = data[at : blank.start()]
        head = self._heads.get(block)
        if head is None:
            head = self._head(block)
        body_at = blank.end()
        length = head.content_length
        if length is not None:
            end = body_at + length
            if end >= len(data):
                if length >= self._spool_size and self._begin_to_spool(
                    head, data[body_at:], length
                ):
                    return None
                self._wait(at, body_at=body_at - at, whole=end + 1 - at)
                return None
            if data[end]:
                raise self._no_nul(head, length, data[end : end + 1])
        else:
            end = data.find(b"\0", body_at)
            if end < 0:
                if body_at < len(data):
                    self._check_body(head, len(data) - body_at)
                if len(data) - body_at >= self._spool_size and self._begin_to_spool(
                    head, data[body_at:], None
                ):
                    return None
                self._wait(at, body_at=body_at - at)
                return None
            if end > body_at:
                self._check_body(head, end - body_at)
        self._at = end + 1
        return Frame(head, data[body_at:end])

    # --- frames that have begun -------------------------------------------------------------------

    def _wait(self, at: int, body_at: int | None = None, whole: int | None = None) -> None:
        """Keep the frame that begins at ``at``. The body begins ``body_at`` bytes later; ``whole``
        is the frame's length, if known."""
        self._pending = bytearray(self._data[at:])
        self._data, self._at = b"", 0
        self._looked = self._line_at = self._line_count = 0
        self._body_at, self._whole = body_at, whole
        if body_at is None:
            self._is_complete()
        else:
            self._looked = len(self._pending)

    def _is_complete(self) -> bool:
        """Return True if reading the pending frame from its start would now get further."""
        pending = self._pending
        if self._whole is not None:
            return len(pending) >= self._whole
        if self._body_at is not None:
            looked = self._looked
            end = pending.find(b"\0", looked)
            self._looked = len(pending)
            if end < 0 and len(pending) - self._body_at > self._limits.body:
                raise self._too_large(
                    f"the body has more than {self._limits.body} bytes and has not ended"
                )
            # The first byte of a body may already be one too many, so the frame is read again. It
            # is also read again when its body gets large enough for a file.
            large = (
                self._new_sink is not None
                and looked - self._body_at < self._spool_size <= len(pending) - self._body_at
            )
            return end >= 0 or looked == self._body_at or large
        while (end := pending.find(b"\n", self._looked)) >= 0:
            line = pending[self._line_at : end]
            if self._grammar.crlf and line.endswith(b"\r"):
                del line[-1:]
            if not line:
                return True
            self._check_line(self._line_count, bytes(line))
            self._line_count += 1
            self._looked = self._line_at = end + 1
        self._looked = len(pending)
        unfinished = len(pending) - self._line_at
        if self._grammar.crlf and pending.endswith(b"\r"):
            unfinished -= 1
        if unfinished > self._limits.line:
            raise self._too_large(
                f"line {self._line_count + 1} has more than {self._limits.line} bytes and has not"
                " ended"
            )
        return False

    # --- large bodies -----------------------------------------------------------------------------

    def _begin_to_spool(self, head: Head, data: bytes, length: int | None) -> bool:
        """Write the body of ``head`` to a file. The body begins with ``data`` and has ``length``
        bytes or ends with a NUL. Return False if the body stays in memory."""
        sink = None
        if head.command == "SEND" and self._new_sink is not None:
            sink = self._new_sink(length is None)
        if sink is None:
            return False
        self._sink, self._sink_head, self._left = sink, head, length
        self._data, self._at = b"", 0
        self._pour(sink, data)
        return True

    def _pour(self, sink: Sink, data: bytes) -> bytes:
        """Write the body in ``data`` to ``sink``; return the bytes after the frame."""
        head = self._sink_head
        assert head is not None
        left = self._left
        end = data.find(b"\0") if left is None else min(left, len(data))
        body = data if end < 0 else data[:end]
        if body:
            sink.write(body)
        if left is None:
            self._check_body(head, sink.length)
            if end < 0:
                return b""
        else:
            self._left = left - len(body)
            if end == len(data):
                return b""
            if data[end]:
                raise self._no_nul(head, sink.length, data[end : end + 1])
        self._spooled = Frame(head, LargeBodySlice(sink.finish()))
        self._sink = None
        return data[end + 1 :]

    def _no_nul(self, head: Head, length: int, byte: bytes) -> Refusal:
        detail = (
            f"the {length} bytes of the {head.command} frame's body are followed by {shown(byte)}"
        )
        return self._refuse(refusal.NO_NUL, detail, head)

    # --- heads ------------------------------------------------------------------------------------

    def _check_line(self, number: int, line: bytes) -> None:
        """Check a whole line of a head, without the line end; ``number`` is 0 for the command."""
        if len(line) > self._limits.line:
            raise self._too_large(
                f"line {number + 1} has {len(line)} bytes, more than {self._limits.line}"
            )
        if number > self._limits.headers:
            raise self._too_large(f"the frame has more than {self._limits.headers} header lines")
        if number == 0 and self._grammar.version is None and line not in (b"CONNECT", b"STOMP"):
            raise self._refuse(
                refusal.NOT_CONNECTED,
                f"a session must begin with a CONNECT or STOMP frame, not with {shown(line)}",
            )

    def _head(self, block: bytes) -> Head:
        """Read a head: everything before the blank line, without the last line end."""
        grammar = self._grammar
        key: bytes | tuple[bytes, bytes] = block
        if block.startswith(b"SEND\n"):
            before, marker, rest = block.partition(b"\nreceipt:")
            if marker:
                value, _, after = rest.partition(b"\n")
                key = before, after
                like = self._heads.get(key)
                if like is not None and len(block) <= min(SHORT, self._limits.line):
                    return like.with_receipt(self._receipt(value, before.count(b"\n") + 2))
        headers: list[tuple[str, str]] = []
        try:
            command = self._read_plain(block, headers) or self._read_lines(block, headers)
            head = Head(command, tuple(headers), None)
            head.content_length = self._content_length(head.first)
            if command not in grammar.commands:
                known = ", ".join(sorted(grammar.commands))
                raise self._refuse(refusal.UNKNOWN_COMMAND, f"{shown(command)} is not in {known}")
            if head.content_length:
                self._check_body(head, head.content_length)
        except Refusal as fault:
            fault.receipt = next((value for name, value in headers if name == "receipt"), None)
            raise
        if command == "SEND" and len(block) <= min(SHORT, self._limits.line):
            if len(self._heads) >= REMEMBERED:
                self._heads.clear()
            self._heads[key] = head
        return head

    def _read_plain(self, block: bytes, headers: list[tuple[str, str]]) -> str:
        """Read a head of plain headers at once: add them to ``headers`` and return the command.
        Return "" if it must be read line by line."""
        if len(block) > self._plain_size:
            return ""
        command, line_end, lines = block.decode("latin-1").partition("\n")
        plain = _PLAIN_HEADER.findall(line_end + lines)
        if len(plain) != block.count(b"\n") or command not in self._grammar.commands:
            return ""
        headers += plain
        return command

    def _read_lines(self, block: bytes, headers: list[tuple[str, str]]) -> str:
        """Read a head line by line: add each header to ``headers``, and return the command. Raises
        :class:`Refusal` for the first wrong line."""
        grammar = self._grammar
        lines = block.split(b"\n")
        if grammar.crlf:
            lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
        if (
            len(block) > self._limits.line
            or len(lines) > self._limits.headers
            or grammar.version is None
        ):
            for number, line in enumerate(lines):
                self._check_line(number, line)
        command = self._text(lines[0], 1)
        for number, line in enumerate(lines[1:], 2):
            headers.append(self._header(line, number))
        return command

    def _receipt(self, value: bytes, number: int) -> str:
        """Return the value of a receipt header, the only part that may differ in line ``number`` of
        a remembered head."""
        if value.isalnum():  # ASCII, and the same in every grammar
            return value.decode()
        if self._grammar.crlf and value.endswith(b"\r"):
            value = value[:-1]
        return self._header(b"receipt:" + value, number)[1]

    def _text(self, line: bytes, number: int) -> str:
        try:
            text = line.decode()
        except UnicodeDecodeError as problem:
            where = f"byte {problem.start + 1} of line {number}, {shown(line)}"
            raise self._refuse(
                refusal.NOT_UTF8, f"{where}, does not continue a UTF-8 character"
            ) from None
        if not self._grammar.bare_cr and "\r" in text:
            raise self._refuse(
                refusal.MALFORMED_VALUE, f"line {number}, {shown(line)}, has a CR that ends no line"
            )
        return text

    def _header(self, line: bytes, number: int) -> tuple[str, str]:
        grammar = self._grammar
        name, colon, value = self._text(line, number).partition(":")
        if not colon or not name:
            what = "no colon" if not colon else "no name before the colon"
            raise self._refuse(
                refusal.MALFORMED_HEADER, f"line {number}, {shown(line)}, has {what}"
            )
        if not grammar.colon_in_value and ":" in value:
            raise self._refuse(
                refusal.MALFORMED_VALUE,
                f"line {number}, {shown(line)}, has a second colon, which must be written \\c",
            )
        if grammar.escapes is not None and b"\\" in line:
            name, value = self._unescape(name, number), self._unescape(value, number)
        if grammar.strip_leading_spaces:
            value = value.lstrip(" ")
        return name, value

    def _unescape(self, text: str, number: int) -> str:
        escapes = self._grammar.escapes or {}

        def meaning(match: re.Match[str]) -> str:
            if match[1] not in escapes:
                defined = ", ".join("\\" + escape for escape in escapes)
                raise self._refuse(
                    refusal.UNDEFINED_ESCAPE,
                    f"line {number}: {shown(match[0])} is not one of {defined}",
                )
            return escapes[match[1]]

        return _ESCAPE.sub(meaning, text)

    def _content_length(self, first: Mapping[str, str]) -> int | None:
        value = first.get("content-length")
        if value is None:
            return None
        if not (value.isascii() and value.isdigit()):
            raise self._refuse(
                refusal.BAD_CONTENT_LENGTH,
                f"content-length {shown(value)} is not a number of bytes",
            )
        digits = value.lstrip("0") or "0"
        if len(digits) > 18 or int(digits) > self._limits.body:
            raise self._too_large(
                f"content-length {shown(value)} is more than {self._limits.body} bytes"
            )
        return int(digits)

    def _check_body(self, head: Head, size: int) -> None:
        """Check a body of which at least ``size`` bytes have been announced or have arrived."""
        if size and head.command not in self._grammar.with_body:
            raise self._refuse(
                refusal.BODY_NOT_ALLOWED, f"a {head.command} frame has no body", head
            )
        if size > self._limits.body:
            raise self._too_large(f"the body has more than {self._limits.body} bytes", head)

    def _too_large(self, detail: str, head: Head | None = None) -> Refusal:
        return self._refuse(refusal.TOO_LARGE, detail, head)

    def _refuse(self, fault: Fault, detail: str, head: Head | None = None) -> Refusal:
        receipt = None if head is None else head.first.get("receipt")
        return Refusal(fault, self._grammar.effective, detail, receipt=receipt)
