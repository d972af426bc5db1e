"""Faults in reading frames: where they begin and end, their lines and their bodies."""

from __future__ import annotations

import re
from dataclasses import replace

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.frame import Frame, Head, Version
from brokerproof.reference_broker.protocols.stomp.grammar import Grammar
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group, Reached

framing = Group("framing")

FRAME = "STOMP10-FRAME-01 STOMP11-FRAME-01 STOMP12-FRAME-02"
LENGTH = "STOMP10-SEND-05 STOMP10-MESSAGE-04 STOMP11-HDR-03 STOMP12-HDR-03"


def regrammared(parts: Parts, version: Version, changed: Grammar) -> Parts:
    """``parts`` with another grammar for one version."""
    return replace(parts, grammars={**parts.grammars, version: changed})


# --- lines ----------------------------------------------------------------------------------------


@framing.mutant("STOMP12-FRAME-01")
def cr_lf_not_known(parts: Parts, reached: Reached) -> Parts:
    """In 1.2 a line may end with LF only: the CR before it is taken for part of the line."""

    class Faulty(FrameParser):
        def feed(self, data: bytes) -> None:
            if self._grammar.version is Version.V1_2 and b"\r\n" in data:
                reached()
            super().feed(data)

    grammar = replace(parts.grammars[Version.V1_2], crlf=False, bare_cr=True)
    return replace(regrammared(parts, Version.V1_2, grammar), parser=Faulty)


@framing.mutant("STOMP12-FRAME-01", recreates="AMQ-3729")
def cr_lf_blank_line_not_seen(parts: Parts, reached: Reached) -> Parts:
    """CR LF ends a header line, but an empty line of CR LF does not end the headers: the parser
    waits for ever."""

    class Faulty(FrameParser):
        def feed(self, data: bytes) -> None:
            if self._grammar.crlf:
                self._blank = re.compile(rb"\n\n")
                if b"\n\r\n" in data:
                    reached()
            super().feed(data)

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP11-FRAME-04")
def cr_lf_in_1_1(parts: Parts, reached: Reached) -> Parts:
    """In 1.1 the CR before an LF is dropped, as in 1.2."""

    class Faulty(FrameParser):
        def _text(self, line: bytes, number: int) -> str:
            return super()._text(line, number)

        def feed(self, data: bytes) -> None:
            if self._grammar.version is Version.V1_1 and b"\r\n" in data:
                reached()
            super().feed(data)

    grammar = replace(parts.grammars[Version.V1_1], crlf=True)
    return replace(regrammared(parts, Version.V1_1, grammar), parser=Faulty)


@framing.mutant("STOMP12-FRAME-01")
def connect_without_cr_lf(parts: Parts, reached: Reached) -> Parts:
    """CONNECT may not end its lines with CR LF."""

    class Faulty(FrameParser):
        def feed(self, data: bytes) -> None:
            if self._grammar.version is None and b"\r\n" in data:
                reached()
            super().feed(data)

    return replace(parts, opening=replace(parts.opening, crlf=False, bare_cr=False), parser=Faulty)


@framing.mutant("STOMP10-FRAME-04 STOMP11-FRAME-01 STOMP12-FRAME-02")
def one_end_of_line_between_frames(parts: Parts, reached: Reached) -> Parts:
    """More than one end of line between two frames is refused."""

    class Faulty(FrameParser):
        def next(self) -> Frame | None:
            behind = self._data[self._at :].replace(b"\r", b"")
            if self._grammar.version is not None and behind.startswith(b"\n\n"):
                reached()
                raise self._refuse(refusal.UNKNOWN_COMMAND, "a frame begins with an empty line")
            return super().next()

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP11-FRAME-02 STOMP12-FRAME-03")
def commands_in_any_case(parts: Parts, reached: Reached) -> Parts:
    """Commands are understood in any mixture of capitals and small letters."""

    class Faulty(FrameParser):
        def _head(self, block: bytes) -> Head:
            command, found, rest = block.partition(b"\n")
            return super()._head(reached.instead(block, command.upper() + found + rest))

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP11-FRAME-02 STOMP12-FRAME-03")
def header_names_in_small_letters(parts: Parts, reached: Reached) -> Parts:
    """The names of headers are turned into small letters."""

    class Faulty(FrameParser):
        def _header(self, line: bytes, number: int) -> tuple[str, str]:
            name, value = super()._header(line, number)
            return reached.instead((name, value), (name.lower(), value))

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP11-ENC-09 STOMP12-ENC-10")
def values_trimmed(parts: Parts, reached: Reached) -> Parts:
    """Blanks around header values are removed in every version."""

    class Faulty(FrameParser):
        def _header(self, line: bytes, number: int) -> tuple[str, str]:
            name, value = super()._header(line, number)
            if self._grammar.version in (None, Version.V1_0):
                return name, value
            return reached.instead((name, value), (name, value.strip(" \t")))

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP11-ENC-09 STOMP12-ENC-10")
def names_trimmed(parts: Parts, reached: Reached) -> Parts:
    """Blanks around header names are removed."""

    class Faulty(FrameParser):
        def _header(self, line: bytes, number: int) -> tuple[str, str]:
            name, value = super()._header(line, number)
            return reached.instead((name, value), (name.strip(" \t"), value))

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP11-ENC-09 STOMP12-ENC-10")
def connect_trimmed(parts: Parts, reached: Reached) -> Parts:
    """Blanks around the values of CONNECT are removed, those of the passcode too."""

    class Faulty(FrameParser):
        def _header(self, line: bytes, number: int) -> tuple[str, str]:
            name, value = super()._header(line, number)
            if self._grammar.version is not None:
                return name, value
            return reached.instead((name, value), (name, value.strip()))

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP10-FRAME-03 STOMP11-FRAME-03 STOMP12-FRAME-05")
def empty_values_refused(parts: Parts, reached: Reached) -> Parts:
    """A header without a value is taken for malformed."""

    class Faulty(FrameParser):
        def _header(self, line: bytes, number: int) -> tuple[str, str]:
            name, value = super()._header(line, number)
            if not value and self._grammar.version is not None:
                reached()
                raise self._refuse(refusal.MALFORMED_HEADER, f"line {number} has no value")
            return name, value

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP12-REPEAT-02")
def last_entry_counts(parts: Parts, reached: Reached) -> Parts:
    """Of several headers with one name the last one counts."""

    class Faulty(FrameParser):
        def _head(self, block: bytes) -> Head:
            head = super()._head(block)
            head.first = reached.instead(head.first, dict(head.headers))
            return head

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP10-FRAME-03")
def value_from_the_last_colon(parts: Parts, reached: Reached) -> Parts:
    """In 1.0 a value begins at the last colon of its line."""

    class Faulty(FrameParser):
        def _header(self, line: bytes, number: int) -> tuple[str, str]:
            right = super()._header(line, number)
            if self._grammar.version is not Version.V1_0:
                return right
            name, _, value = self._text(line, number).rpartition(":")
            return reached.instead(right, (name, value.lstrip(" ")))

    return replace(parts, parser=Faulty)


@framing.mutant(
    "STOMP11-ENC-01 STOMP12-ENC-01 STOMP11-HDR-10 STOMP12-HDR-14 STOMP11-SEND-06 STOMP12-SEND-06"
)
def headers_in_latin_1(parts: Parts, reached: Reached) -> Parts:
    """Header text is read as ISO 8859-1."""

    class Faulty(FrameParser):
        def _text(self, line: bytes, number: int) -> str:
            return reached.instead(super()._text(line, number), line.decode("latin-1"))

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP11-ENC-01 STOMP12-ENC-01 STOMP11-HDR-10 STOMP12-HDR-14", recreates="AMQ-8398")
def supplementary_characters_lost(parts: Parts, reached: Reached) -> Parts:
    """Characters beyond the basic plane are lost on the way through the broker's own text
    encoding."""

    class Faulty(FrameParser):
        def _text(self, line: bytes, number: int) -> str:
            right = super()._text(line, number)
            return reached.instead(
                right, "".join(each if each <= "\uffff" else "??" for each in right)
            )

    return replace(parts, parser=Faulty)


# --- bodies ---------------------------------------------------------------------------------------


@framing.mutant(LENGTH)
def content_length_ignored(parts: Parts, reached: Reached) -> Parts:
    """The body ends at the first NUL although there is a content-length."""

    class Faulty(FrameParser):
        def _content_length(self, headers: list[tuple[str, str]]) -> int | None:
            return reached.instead(super()._content_length(headers), None)

    return replace(parts, parser=Faulty)


@framing.mutant(LENGTH, recreates="AMQ-2822")
def content_length_lost_in_pieces(parts: Parts, reached: Reached) -> Parts:
    """When a frame arrives in pieces its content-length is forgotten: the body ends at the first
    NUL."""

    class Faulty(FrameParser):
        forget = False

        def _wait(self, at: int, body_at: int | None = None, whole: int | None = None) -> None:
            self.forget = self.forget or body_at is not None
            if whole is not None:
                reached()
                self._heads.clear()
            super()._wait(at, body_at)

        def _content_length(self, headers: list[tuple[str, str]]) -> int | None:
            right = super()._content_length(headers)
            return None if self.forget else right

        def next(self) -> Frame | None:
            found = super().next()
            if found is not None:
                self.forget = False
                self._heads.clear()
            return found

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP12-HDR-17", recreates="AMQ-3653")
def content_length_only_for_send(parts: Parts, reached: Reached) -> Parts:
    """ACK, BEGIN and the other frames without a body are refused when they have a content-length of
    0."""

    class Faulty(FrameParser):
        def _head(self, block: bytes) -> Head:
            head = super()._head(block)
            if head.content_length is not None and head.command not in self._grammar.with_body:
                reached()
                raise self._refuse(
                    refusal.BODY_NOT_ALLOWED, f"a {head.command} frame has no length", head
                )
            return head

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP11-SEND-07 STOMP12-SEND-07", recreates="AMQ PR 2064")
def negative_content_length_accepted(parts: Parts, reached: Reached) -> Parts:
    """A negative content-length counts as none."""

    class Faulty(FrameParser):
        def _content_length(self, headers: list[tuple[str, str]]) -> int | None:
            value = dict(reversed(headers)).get("content-length", "")
            if re.fullmatch(r"-\d+", value):
                reached()
                return None
            return super()._content_length(headers)

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP11-SEND-07 STOMP12-SEND-07", recreates="rabbitmq-server commit 4d58acb29c")
def bad_content_length_ends_in_silence(parts: Parts, reached: Reached) -> Parts:
    """A content-length that is no number crashes the reader: the connection ends without a word."""

    class Faulty(parts.stomp):  # type: ignore[name-defined,misc]
        def _refuse(self, problem: Refusal, frame: Frame | None = None) -> None:
            if problem.message == refusal.BAD_CONTENT_LENGTH.message:
                reached()
                self.close()
            else:
                super()._refuse(problem, frame)

    return replace(parts, stomp=Faulty)


@framing.mutant("STOMP10-SEND-06 STOMP11-HDR-04 STOMP12-HDR-04")
def nul_not_demanded(parts: Parts, reached: Reached) -> Parts:
    """Behind the octets that content-length counts any octet is taken for the NUL."""

    class Faulty(FrameParser):
        def next(self) -> Frame | None:
            data, at = self._data, self._at
            try:
                return super().next()
            except Refusal as problem:
                blank = self._blank.search(data, at)
                if problem.message != refusal.NO_NUL.message or blank is None:
                    raise
                reached()
                head = self._head(data[at : blank.start()])
                end = blank.end() + (head.content_length or 0)
                self._at = end + 1
                return Frame(head, data[blank.end() : end])

    return replace(parts, parser=Faulty)


@framing.mutant(LENGTH)
def bodies_cut_at_4096(parts: Parts, reached: Reached) -> Parts:
    """Bodies are cut after 4096 octets."""

    class Faulty(FrameParser):
        def next(self) -> Frame | None:
            frame = super().next()
            if frame is not None:
                frame.body = reached.instead(frame.body, frame.body[:4096])
            return frame

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP10-MESSAGE-04 STOMP11-FRAME-01 STOMP12-FRAME-02")
def bodies_are_text(parts: Parts, reached: Reached) -> Parts:
    """A body without content-length is decoded as text, and what is no UTF-8 is replaced."""

    class Faulty(FrameParser):
        def next(self) -> Frame | None:
            frame = super().next()
            if frame is not None and frame.head.content_length is None:
                frame.body = reached.instead(
                    frame.body, frame.body.decode(errors="replace").encode()
                )
            return frame

    return replace(parts, parser=Faulty)


@framing.mutant(LENGTH)
def end_of_line_before_body_dropped(parts: Parts, reached: Reached) -> Parts:
    """An LF at the beginning of a body is taken for part of the headers."""

    class Faulty(FrameParser):
        def next(self) -> Frame | None:
            frame = super().next()
            if frame is not None:
                frame.body = reached.instead(frame.body, frame.body.removeprefix(b"\n"))
            return frame

    return replace(parts, parser=Faulty)


@framing.mutant("STOMP10-SUBSCRIBE-06")
def body_of_subscribe_refused(parts: Parts, reached: Reached) -> Parts:
    """A 1.0 SUBSCRIBE with a body is refused instead of its body being ignored."""

    class Faulty(FrameParser):
        def _check_body(self, head: Head, octets: int) -> None:
            if (
                octets
                and head.command not in self._grammar.with_body
                and self._grammar.version is Version.V1_0
            ):
                reached()
            super()._check_body(head, octets)

    grammar = replace(parts.grammars[Version.V1_0], with_body=frozenset({"SEND"}))
    return replace(regrammared(parts, Version.V1_0, grammar), parser=Faulty)
