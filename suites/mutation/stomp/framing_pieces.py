"""Faults in reading frames that arrive in pieces."""

from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.grammar import GRAMMARS
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.suites.mutation.mutant import Group, breaks
from brokerproof.suites.mutation.stomp.framing import FRAME, regrammar

framing_pieces = Group("framing")


@framing_pieces.override(FrameParser, "feed", breaks=FRAME)
def waits_for_one_byte_more(original, reached, self, data):
    """A frame in pieces is read only when a byte of the next one arrives."""
    if reached(self._pending and data.endswith(b"\0")):
        self._pending += data
        return
    original(self, data)


@framing_pieces.override(FrameParser, "feed", breaks=FRAME)
def end_of_line_in_a_piece_dropped(original, reached, self, data):
    """A piece that begins with an end of line loses it, as if it were a heartbeat within the
    frame."""
    original(self, data[1:] if reached(self._pending and data.startswith(b"\n")) else data)


@framing_pieces.override(FrameParser, "feed")
@breaks("STOMP10-FRAME-01 STOMP11-FRAME-01 STOMP12-FRAME-02")
def characters_cut_in_two(original, reached, self, data):
    """Each piece is decoded separately: a character split between two pieces is corrupted."""
    whole = data.decode(errors="replace").encode()
    cut = data[-1:] >= b"\xc2" or (len(data) == 1 and data >= b"\x80")
    original(self, reached.instead(data, whole) if cut else data)


@framing_pieces.mutant("STOMP10-FRAME-01 STOMP11-FRAME-01 STOMP12-FRAME-02 STOMP12-RCPT-03")
def only_the_first_frame_of_a_piece(patch, reached):
    """Of several frames in one piece only the first three are read."""
    patch.set(FrameParser, "read", 0)

    @patch.before(FrameParser)
    def feed(self, data):
        self.read = 0

    @patch.result(FrameParser)
    def next(frame, self):
        if frame is not None and self._grammar.version is not None:
            self.read += 1
            if reached(self.read > 3):
                self._data, self._at = b"", 0
                return None
        return frame


@framing_pieces.override(FrameParser, "next")
@breaks("STOMP10-SEND-07 STOMP11-FRAME-01 STOMP12-FRAME-02")
def body_up_to_the_last_nul(original, reached, self):
    """Without content-length the body ends at the last NUL that has arrived, not at the first."""
    frame = original(self)
    if frame is None or frame.head.content_length is not None or frame.head.command != "SEND":
        return frame
    rest = self._data[self._at :]
    last = rest.rfind(b"\0")
    if reached(last >= 0):
        frame.body += b"\0" + rest[:last]
        self._at += last + 1
    return frame


@framing_pieces.mutant("STOMP10-FRAME-06 STOMP10-RECEIPT-02 STOMP10-ABORT-01")
def abort_not_known_in_1_0(patch, reached):
    """ABORT is not a command of 1.0."""
    regrammar(patch, Version.V1_0, commands=GRAMMARS[Version.V1_0].commands - {"ABORT"})

    @patch.before(FrameParser)
    def _head(self, block):
        reached(self._grammar.version is Version.V1_0 and block.startswith(b"ABORT\n"))


@framing_pieces.mutant("STOMP11-SEND-06 STOMP12-SEND-06 STOMP11-MSG-06 STOMP12-MSG-08")
def long_values_cut(patch, reached):
    """Header values are cut after 255 characters."""

    @patch.override(FrameParser)
    def _read_plain(original, self, block, headers):
        return ""

    @patch.override(FrameParser)
    def _header(original, self, line, number):
        name, value = original(self, line, number)
        return name, reached.instead(value, value[:255])
