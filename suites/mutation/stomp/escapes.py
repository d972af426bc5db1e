"""Faults in escaping header text, on the way in and on the way out."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.message import Envelope
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Headers, Version
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group, Reached

escapes = Group("escapes")

READ = (
    "STOMP11-ENC-04 STOMP11-ENC-05 STOMP11-ENC-06 STOMP12-ENC-04 STOMP12-ENC-05 STOMP12-ENC-06"
    " STOMP12-ENC-07"
)
WRITTEN = "STOMP11-ENC-02 STOMP11-ENC-08 STOMP12-ENC-02 STOMP12-ENC-09"


# --- reading --------------------------------------------------------------------------------------


@escapes.mutant("STOMP11-ENC-07 STOMP12-ENC-08", recreates="ARTEMIS (no id) escapes")
def undefined_escapes_kept(parts: Parts, reached: Reached) -> Parts:
    """An undefined escape is no error: backslash and letter stay as they are."""

    class Faulty(FrameParser):
        def _unescape(self, text: str, number: int) -> str:
            try:
                return super()._unescape(text, number)
            except Refusal:
                reached()
                return text

    return replace(parts, parser=Faulty)


@escapes.mutant("STOMP11-ENC-07")
def carriage_return_escape_in_1_1(parts: Parts, reached: Reached) -> Parts:
    """1.1 takes \\r for an escape, as 1.2 does."""

    class Faulty(FrameParser):
        def _unescape(self, text: str, number: int) -> str:
            if self._grammar.version is Version.V1_1 and "\\r" in text:
                reached()
            return super()._unescape(text, number)

    grammar = parts.grammars[Version.V1_1]
    grammar = replace(grammar, escapes={**(grammar.escapes or {}), "r": "\r"})
    return replace(parts, grammars={**parts.grammars, Version.V1_1: grammar}, parser=Faulty)


def _without_escape(parts: Parts, reached: Reached, letter: str) -> Parts:
    class Faulty(FrameParser):
        def _unescape(self, text: str, number: int) -> str:
            if f"\\{letter}" in text and self._grammar.escapes is not None:
                reached()
                kept = f"\\{letter}".replace("\\", "\\\\")
                return super()._unescape(text.replace(f"\\{letter}", kept), number)
            return super()._unescape(text, number)

    return replace(parts, parser=Faulty)


@escapes.mutant("STOMP12-ENC-04")
def carriage_return_not_read(parts: Parts, reached: Reached) -> Parts:
    """\\r is not turned into CR."""
    return _without_escape(parts, reached, "r")


@escapes.mutant("STOMP11-ENC-04 STOMP12-ENC-05")
def line_feed_not_read(parts: Parts, reached: Reached) -> Parts:
    """\\n is not turned into LF."""
    return _without_escape(parts, reached, "n")


@escapes.mutant("STOMP11-ENC-05 STOMP12-ENC-06")
def colon_not_read(parts: Parts, reached: Reached) -> Parts:
    """\\c is not turned into a colon."""
    return _without_escape(parts, reached, "c")


@escapes.mutant("STOMP11-ENC-06 STOMP12-ENC-07")
def read_in_passes(parts: Parts, reached: Reached) -> Parts:
    """One escape after the other is replaced in the whole text: of an escaped backslash before an n
    remains an LF."""

    class Faulty(FrameParser):
        def _unescape(self, text: str, number: int) -> str:
            right = super()._unescape(text, number)
            for letter, meaning in (self._grammar.escapes or {}).items():
                if letter != "\\":
                    text = text.replace(f"\\{letter}", meaning)
            return reached.instead(right, text.replace("\\\\", "\\"))

    return replace(parts, parser=Faulty)


@escapes.mutant(READ)
def names_not_read(parts: Parts, reached: Reached) -> Parts:
    """Escapes are read in the values of headers and not in their names."""

    class Faulty(FrameParser):
        def _header(self, line: bytes, number: int) -> tuple[str, str]:
            right = super()._header(line, number)
            written = line.decode().partition(":")[0]
            return (
                (reached.instead(right[0], written), right[1]) if self._grammar.escapes else right
            )

    return replace(parts, parser=Faulty)


@escapes.mutant("STOMP11-ENC-03 STOMP12-ENC-03")
def connect_read_with_escapes(parts: Parts, reached: Reached) -> Parts:
    """Escapes are read in CONNECT as in any frame, and undefined ones refused."""

    class Faulty(FrameParser):
        def _header(self, line: bytes, number: int) -> tuple[str, str]:
            if self._grammar.version is None and b"\\" in line:
                reached()
            return super()._header(line, number)

    grammar = parts.grammars[Version.V1_2]
    return replace(parts, opening=replace(parts.opening, escapes=grammar.escapes), parser=Faulty)


@escapes.mutant("STOMP11-ENC-03 STOMP12-ENC-03")
def connect_without_colons(parts: Parts, reached: Reached) -> Parts:
    """A colon in a value of CONNECT is refused, as in later frames."""

    class Faulty(FrameParser):
        def _header(self, line: bytes, number: int) -> tuple[str, str]:
            if self._grammar.version is None and line.count(b":") > 1:
                reached()
            return super()._header(line, number)

    return replace(parts, opening=replace(parts.opening, colon_in_value=False), parser=Faulty)


@escapes.mutant("STOMP10-FRAME-03")
def read_in_1_0(parts: Parts, reached: Reached) -> Parts:
    """Escapes are read in 1.0, which has none."""

    class Faulty(FrameParser):
        def _header(self, line: bytes, number: int) -> tuple[str, str]:
            if self._grammar.version is Version.V1_0 and b"\\" in line:
                reached()
            return super()._header(line, number)

    grammar = replace(parts.grammars[Version.V1_0], escapes=parts.grammars[Version.V1_1].escapes)
    return replace(parts, grammars={**parts.grammars, Version.V1_0: grammar}, parser=Faulty)


# --- writing --------------------------------------------------------------------------------------


def _written(
    parts: Parts, reached: Reached, changes: dict[int, str | None], only: Version | None = None
) -> Parts:
    class Faulty(FrameEncoder):
        def __init__(self, version: Version | None) -> None:
            super().__init__(version)
            self._right = self._escapes
            if self._escapes and only in (None, version):
                kept = {**self._escapes, **changes}
                self._escapes = {key: value for key, value in kept.items() if value is not None}

        def header(self, name: str, value: str) -> bytes:
            if self._right != self._escapes:
                both = name + value
                reached.instead(both.translate(self._right), both.translate(self._escapes))
            return super().header(name, value)

    return replace(parts, encoder=Faulty)


@escapes.mutant(WRITTEN)
def colon_not_written(parts: Parts, reached: Reached) -> Parts:
    """A colon in a header of MESSAGE leaves as a colon."""
    return _written(parts, reached, {ord(":"): None})


@escapes.mutant(WRITTEN)
def backslash_not_written(parts: Parts, reached: Reached) -> Parts:
    """A backslash in a header of MESSAGE leaves as one backslash."""
    return _written(parts, reached, {ord("\\"): None})


@escapes.mutant(WRITTEN)
def line_feed_not_written(parts: Parts, reached: Reached) -> Parts:
    """An LF in a header of MESSAGE leaves as an LF, and whoever sends one can add headers of his
    own."""
    return _written(parts, reached, {ord("\n"): None})


@escapes.mutant("STOMP12-ENC-02 STOMP12-ENC-09", recreates="AMQ-8409")
def carriage_return_written_doubled(parts: Parts, reached: Reached) -> Parts:
    """A CR leaves as two backslashes and an r."""
    return _written(parts, reached, {ord("\r"): "\\\\r"}, Version.V1_2)


@escapes.mutant("STOMP11-ENC-08 STOMP12-ENC-09")
def written_in_passes(parts: Parts, reached: Reached) -> Parts:
    """One character after the other is escaped, the backslash last: the backslashes of the escapes
    are escaped too."""

    class Faulty(FrameEncoder):
        def header(self, name: str, value: str) -> bytes:
            right = super().header(name, value)
            if not self._escapes:
                return right
            ends = {key: each for key, each in self._escapes.items() if key != ord("\\")}
            name, value = (text.translate(ends).replace("\\", "\\\\") for text in (name, value))
            return reached.instead(right, f"{name}:{value}\n".encode())

    return replace(parts, encoder=Faulty)


@escapes.mutant(
    "STOMP11-ENC-02 STOMP12-ENC-02 STOMP11-RCPT-02 STOMP12-RCPT-02 STOMP11-HDR-13 STOMP12-HDR-17"
)
def receipts_not_escaped(parts: Parts, reached: Reached) -> Parts:
    """The receipt-id of a RECEIPT is written without escapes."""

    class Faulty(FrameEncoder):
        def receipt(self, receipt: str) -> bytes:
            right = super().receipt(receipt)
            return reached.instead(right, f"RECEIPT\nreceipt-id:{receipt}\n\n\0".encode())

    return replace(parts, encoder=Faulty)


@escapes.mutant(f"{WRITTEN} STOMP11-MSG-06 STOMP12-MSG-08 STOMP11-SEND-06 STOMP12-SEND-06")
def names_not_written(parts: Parts, reached: Reached) -> Parts:
    """The names of headers leave without escapes."""

    class Faulty(FrameEncoder):
        def header(self, name: str, value: str) -> bytes:
            right = super().header(name, value)
            if not self._escapes:
                return right
            return reached.instead(right, f"{name}:{value.translate(self._escapes)}\n".encode())

    return replace(parts, encoder=Faulty)


@escapes.mutant("STOMP10-FRAME-03")
def written_in_1_0(parts: Parts, reached: Reached) -> Parts:
    """Headers to 1.0 subscribers are escaped, which 1.0 does not know."""

    class Faulty(FrameEncoder):
        def header(self, name: str, value: str) -> bytes:
            right = super().header(name, value)
            if self._key != f"stomp {Version.V1_0}":
                return right
            return reached.instead(right, FrameEncoder(Version.V1_1).header(name, value))

    return replace(parts, encoder=Faulty)


@escapes.mutant("STOMP10-FRAME-03 STOMP11-ENC-08 STOMP12-ENC-09")
def encoded_once_for_all(parts: Parts, reached: Reached) -> Parts:
    """Headers are encoded once per message, for the version of its first subscriber, and sent so to
    all others."""

    class Faulty(FrameEncoder):
        def __init__(self, version: Version | None) -> None:
            super().__init__(version)
            self._own, self._key = self._key, "stomp"

        def _headers(self, envelope: Envelope) -> bytes:
            envelope.wire[self._own] = b""
            return super()._headers(envelope)

        def message(self, opening: bytes, message, ack: bytes, redelivered: bool) -> bytes:  # type: ignore[no-untyped-def]
            wire = message.envelope.wire
            if self._key in wire and self._own not in wire:
                reached()
            return super().message(opening, message, ack, redelivered)

    return replace(parts, encoder=Faulty)


@escapes.mutant("STOMP10-FRAME-03")
def sent_to_1_0_as_received(parts: Parts, reached: Reached) -> Parts:
    """A line end in a header that a later version brought is sent to 1.0 subscribers as it is."""

    class Faulty(FrameEncoder):
        def header(self, name: str, value: str) -> bytes:
            right = super().header(name, value)
            return right if self._escapes else reached.instead(right, f"{name}:{value}\n".encode())

        def frame(self, command: str, headers: Headers, body: bytes = b"") -> bytes:
            return super().frame(command, headers, body)

    return replace(parts, encoder=Faulty)
