"""Faults in reading frames that come in pieces."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.protocols.stomp.frame import Frame, Head, Version
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.suites.mutation.mutant import Group, Reached
from brokerproof.suites.mutation.stomp.framing import FRAME, regrammared

framing_pieces = Group("framing")


@framing_pieces.mutant(FRAME)
def waits_for_one_octet_more(parts: Parts, reached: Reached) -> Parts:
    """A frame that came in pieces is read only when an octet of the next one is there."""

    class Faulty(FrameParser):
        def feed(self, data: bytes) -> None:
            if self._pending and data.endswith(b"\0"):
                reached()
                self._pending += data
                return
            super().feed(data)

    return replace(parts, parser=Faulty)


@framing_pieces.mutant(FRAME)
def end_of_line_in_a_piece_dropped(parts: Parts, reached: Reached) -> Parts:
    """A piece that begins with an end of line loses it: it is taken for a heart-beat within the
    frame."""

    class Faulty(FrameParser):
        def feed(self, data: bytes) -> None:
            if self._pending and data.startswith(b"\n"):
                reached()
                data = data[1:]
            super().feed(data)

    return replace(parts, parser=Faulty)


@framing_pieces.mutant("STOMP10-FRAME-01 STOMP11-FRAME-01 STOMP12-FRAME-02")
def characters_cut_in_two(parts: Parts, reached: Reached) -> Parts:
    """Each piece is decoded by itself: a character whose octets arrive in two pieces is spoilt."""

    class Faulty(FrameParser):
        def feed(self, data: bytes) -> None:
            whole = data.decode(errors="replace").encode()
            cut = data[-1:] >= b"\xc2" or (len(data) == 1 and data >= b"\x80")
            super().feed(reached.instead(data, whole) if cut else data)

    return replace(parts, parser=Faulty)


@framing_pieces.mutant(f"{FRAME} STOMP12-RCPT-03")
def only_the_first_frame_of_a_piece(parts: Parts, reached: Reached) -> Parts:
    """Of several frames in one piece only the first three are read."""

    class Faulty(FrameParser):
        read = 0

        def feed(self, data: bytes) -> None:
            self.read = 0
            super().feed(data)

        def next(self) -> Frame | None:
            frame = super().next()
            if frame is not None and self._grammar.version is not None:
                self.read += 1
                if self.read > 3:
                    reached()
                    self._data, self._at = b"", 0
                    return None
            return frame

    return replace(parts, parser=Faulty)


@framing_pieces.mutant("STOMP10-SEND-07 STOMP11-FRAME-01 STOMP12-FRAME-02")
def body_up_to_the_last_nul(parts: Parts, reached: Reached) -> Parts:
    """Without content-length the body ends at the last NUL that has arrived, not at the first."""

    class Faulty(FrameParser):
        def next(self) -> Frame | None:
            frame = super().next()
            if (
                frame is None
                or frame.head.content_length is not None
                or frame.head.command != "SEND"
            ):
                return frame
            rest = self._data[self._at :]
            last = rest.rfind(b"\0")
            if last >= 0:
                reached()
                frame.body += b"\0" + rest[:last]
                self._at += last + 1
            return frame

    return replace(parts, parser=Faulty)


@framing_pieces.mutant("STOMP10-FRAME-06 STOMP10-RECEIPT-02 STOMP10-ABORT-01")
def abort_not_known_in_1_0(parts: Parts, reached: Reached) -> Parts:
    """ABORT is no command of 1.0."""

    class Faulty(FrameParser):
        def _head(self, block: bytes) -> Head:
            if self._grammar.version is Version.V1_0 and block.startswith(b"ABORT\n"):
                reached()
            return super()._head(block)

    grammar = parts.grammars[Version.V1_0]
    grammar = replace(grammar, commands=grammar.commands - {"ABORT"})
    return replace(regrammared(parts, Version.V1_0, grammar), parser=Faulty)


@framing_pieces.mutant("STOMP11-SEND-06 STOMP12-SEND-06 STOMP11-MSG-06 STOMP12-MSG-08")
def long_values_cut(parts: Parts, reached: Reached) -> Parts:
    """Header values are cut after 255 characters."""

    class Faulty(FrameParser):
        def _header(self, line: bytes, number: int) -> tuple[str, str]:
            name, value = super()._header(line, number)
            return name, reached.instead(value, value[:255])

    return replace(parts, parser=Faulty)
