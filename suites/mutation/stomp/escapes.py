"""Faults in escaping header text, in both directions."""

from dataclasses import replace

from brokerproof.reference_broker.protocols.stomp import grammar
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.grammar import GRAMMARS
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group, breaks

escapes = Group("escapes")

READ = (
    "STOMP11-ENC-04 STOMP11-ENC-05 STOMP11-ENC-06 STOMP12-ENC-04 STOMP12-ENC-05 STOMP12-ENC-06"
    " STOMP12-ENC-07"
)
WRITTEN = "STOMP11-ENC-02 STOMP11-ENC-08 STOMP12-ENC-02 STOMP12-ENC-09"


# --- reading --------------------------------------------------------------------------------------


@escapes.override(FrameParser, "_unescape", recreates="ARTEMIS (no id) escapes")
@breaks("STOMP11-ENC-07 STOMP12-ENC-08")
def undefined_escapes_kept(original, reached, self, text, number):
    """An undefined escape is not an error: backslash and letter stay as they are."""
    try:
        return original(self, text, number)
    except Refusal:
        reached()
        return text


@escapes.mutant("STOMP11-ENC-07")
def carriage_return_escape_in_1_1(patch, reached):
    """1.1 accepts \\r as an escape, as 1.2 does."""
    right = GRAMMARS[Version.V1_1]
    escapes = {**(right.escapes or {}), "r": "\r"}
    patch.set(GRAMMARS, Version.V1_1, replace(right, escapes=escapes))

    @patch.before(FrameParser)
    def _unescape(self, text, number):
        reached(self._grammar.version is Version.V1_1 and "\\r" in text)


def _without_escape(patch, reached, letter):
    @patch.override(FrameParser)
    def _unescape(original, self, text, number):
        if reached(f"\\{letter}" in text and self._grammar.escapes is not None):
            kept = f"\\{letter}".replace("\\", "\\\\")
            return original(self, text.replace(f"\\{letter}", kept), number)
        return original(self, text, number)


@escapes.variant(_without_escape, "r", breaks="STOMP12-ENC-04")
def carriage_return_not_read():
    """\\r is not turned into CR."""


@escapes.variant(_without_escape, "n", breaks="STOMP11-ENC-04 STOMP12-ENC-05")
def line_feed_not_read():
    """\\n is not turned into LF."""


@escapes.variant(_without_escape, "c", breaks="STOMP11-ENC-05 STOMP12-ENC-06")
def colon_not_read():
    """\\c is not turned into a colon."""


@escapes.result(FrameParser, "_unescape", breaks="STOMP11-ENC-06 STOMP12-ENC-07")
def read_in_passes(right, self, text, number):
    """Escapes are decoded in several passes over the text: an escaped backslash before an n becomes
    an LF."""
    for letter, meaning in (self._grammar.escapes or {}).items():
        if letter != "\\":
            text = text.replace(f"\\{letter}", meaning)
    return text.replace("\\\\", "\\")


@escapes.override(FrameParser, "_header", breaks=READ)
def names_not_read(original, reached, self, line, number):
    """Escapes are decoded in header values but not in names."""
    right = original(self, line, number)
    written = line.decode().partition(":")[0]
    return (reached.instead(right[0], written), right[1]) if self._grammar.escapes else right


@escapes.mutant("STOMP11-ENC-03 STOMP12-ENC-03")
def connect_read_with_escapes(patch, reached):
    """Escapes are decoded in CONNECT as in any frame, and undefined ones refused."""
    escapes = GRAMMARS[Version.V1_2].escapes
    patch.set(grammar, "OPENING", replace(grammar.OPENING, escapes=escapes))

    @patch.before(FrameParser)
    def _header(self, line, number):
        reached(self._grammar.version is None and b"\\" in line)


@escapes.mutant("STOMP11-ENC-03 STOMP12-ENC-03")
def connect_without_colons(patch, reached):
    """A colon in a value of CONNECT is refused, as in later frames."""
    patch.set(grammar, "OPENING", replace(grammar.OPENING, colon_in_value=False))

    @patch.before(FrameParser)
    def _header(self, line, number):
        reached(self._grammar.version is None and line.count(b":") > 1)


@escapes.mutant("STOMP10-RECEIPT-02")
def read_in_1_0(patch, reached):
    """Escapes are decoded in 1.0, which has none."""
    escapes = GRAMMARS[Version.V1_1].escapes
    patch.set(GRAMMARS, Version.V1_0, replace(GRAMMARS[Version.V1_0], escapes=escapes))

    @patch.before(FrameParser)
    def _header(self, line, number):
        reached(self._grammar.version is Version.V1_0 and b"\\" in line)


# --- writing --------------------------------------------------------------------------------------


def _written(patch, reached, changes, only=None):
    @patch.after(FrameEncoder)
    def __init__(self, version):
        self._right = self._escapes
        if self._escapes and only in (None, version):
            kept = {**self._escapes, **changes}
            self._escapes = {key: value for key, value in kept.items() if value is not None}

    @patch.before(FrameEncoder)
    def header(self, name, value):
        if self._right != self._escapes:
            both = name + value
            reached.instead(both.translate(self._right), both.translate(self._escapes))


@escapes.variant(_written, {ord(":"): None}, breaks=WRITTEN)
def colon_not_written():
    """A colon in a header of MESSAGE is not escaped."""


@escapes.variant(_written, {ord("\\"): None}, breaks=WRITTEN)
def backslash_not_written():
    """A backslash in a header of MESSAGE is not escaped."""


@escapes.variant(_written, {ord("\n"): None}, breaks=WRITTEN)
def line_feed_not_written():
    """An LF in a header of MESSAGE is not escaped, so a sender can add headers."""


@escapes.variant(_written, {ord("\r"): "\\\\r"}, Version.V1_2, recreates="AMQ-8409")
@breaks("STOMP12-ENC-02 STOMP12-ENC-09")
def carriage_return_written_doubled():
    """A CR is sent as two backslashes and an r."""


@escapes.result(FrameEncoder, "header", breaks="STOMP11-ENC-08 STOMP12-ENC-09")
def written_in_passes(right, self, name, value):
    """The backslash is escaped last, so the backslashes of other escapes are escaped too."""
    if not self._escapes:
        return right
    ends = {key: escape for key, escape in self._escapes.items() if key != ord("\\")}
    name, value = (text.translate(ends).replace("\\", "\\\\") for text in (name, value))
    return f"{name}:{value}\n".encode()


@escapes.result(FrameEncoder, "receipt")
@breaks(
    "STOMP11-ENC-02 STOMP12-ENC-02 STOMP11-RCPT-02 STOMP12-RCPT-02 STOMP11-HDR-13 STOMP12-HDR-17"
)
def receipts_not_escaped(right, self, receipt):
    """The receipt-id of a RECEIPT is written without escapes."""
    return f"RECEIPT\nreceipt-id:{receipt}\n\n\0".encode()


@escapes.result(FrameEncoder, "header")
@breaks(f"{WRITTEN} STOMP11-MSG-06 STOMP12-MSG-08 STOMP11-SEND-06 STOMP12-SEND-06")
def names_not_written(right, self, name, value):
    """Header names are not escaped."""
    return right if not self._escapes else f"{name}:{value.translate(self._escapes)}\n".encode()


@escapes.override(FrameEncoder, "header", breaks="STOMP10-RECEIPT-02")
def written_in_1_0(original, reached, self, name, value):
    """Headers to 1.0 subscribers are escaped, which 1.0 does not know."""
    right = original(self, name, value)
    if self._key != f"stomp {Version.V1_0}":
        return right
    return reached.instead(right, original(FrameEncoder(Version.V1_1), name, value))


@escapes.mutant("STOMP11-ENC-08 STOMP12-ENC-09")
def encoded_once_for_all(patch, reached):
    """Headers are encoded once per message, for the version of its first subscriber, and sent to
    all others unchanged."""

    @patch.after(FrameEncoder)
    def __init__(self, version):
        self._own, self._key = self._key, "stomp"

    @patch.before(FrameEncoder)
    def _headers(self, envelope):
        envelope.wire[self._own] = b""

    @patch.before(FrameEncoder, "message")
    def frameencoder_message(self, opening, message, ack, redelivered):
        wire = message.envelope.wire
        reached(self._key in wire and self._own not in wire)


@escapes.mutant("STOMP10-FRAME-03")
def sent_to_1_0_as_received(patch, reached):
    """A line end in a header from a later version is sent to 1.0 subscribers unchanged."""

    @patch.result(FrameEncoder)
    def header(right, self, name, value):
        return right if self._escapes else reached.instead(right, f"{name}:{value}\n".encode())

    @patch.override(FrameEncoder)
    def frame(original, self, command, headers, body=b""):
        return original(self, command, headers, body)
