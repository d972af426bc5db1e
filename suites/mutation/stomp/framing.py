"""Faults in reading frames: where they begin and end, their lines, and their bodies."""

import re
from dataclasses import replace

from brokerproof.reference_broker.protocols.stomp import grammar, refusal
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.grammar import GRAMMARS
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.suites.mutation.mutant import Group, breaks

framing = Group("framing")

FRAME = "STOMP10-FRAME-01 STOMP11-FRAME-01 STOMP12-FRAME-02"
LENGTH = "STOMP10-SEND-05 STOMP10-MESSAGE-04 STOMP11-HDR-03 STOMP12-HDR-03"


def regrammar(patch, version, **changes):
    """Change the grammar of one version."""
    patch.set(GRAMMARS, version, replace(GRAMMARS[version], **changes))


# --- lines ----------------------------------------------------------------------------------------


@framing.mutant("STOMP12-FRAME-01")
def cr_lf_not_known(patch, reached):
    """In 1.2 a line may end only with LF: a CR before it becomes part of the line."""
    regrammar(patch, Version.V1_2, crlf=False, bare_cr=True)

    @patch.before(FrameParser)
    def feed(self, data):
        reached(self._grammar.version is Version.V1_2 and b"\r\n" in data)


@framing.before(FrameParser, "feed", breaks="STOMP12-FRAME-01", recreates="AMQ-3729")
def cr_lf_blank_line_not_seen(reached, self, data):
    """CR LF ends a header line, but an empty line of CR LF does not end the headers: the parser
    waits forever."""
    if self._grammar.crlf:
        self._blank = re.compile(rb"\n\n")
        reached(b"\n\r\n" in data)


@framing.mutant("STOMP11-FRAME-04")
def cr_lf_in_1_1(patch, reached):
    """In 1.1 the CR before an LF is dropped, as in 1.2."""
    regrammar(patch, Version.V1_1, crlf=True)

    @patch.before(FrameParser)
    def feed(self, data):
        reached(self._grammar.version is Version.V1_1 and b"\r\n" in data)


@framing.mutant("STOMP12-FRAME-01")
def connect_without_cr_lf(patch, reached):
    """CONNECT may not end its lines with CR LF."""
    patch.set(grammar, "OPENING", replace(grammar.OPENING, crlf=False, bare_cr=False))

    @patch.before(FrameParser)
    def feed(self, data):
        reached(self._grammar.version is None and b"\r\n" in data)


@framing.before(FrameParser, "next", breaks="STOMP10-FRAME-04 STOMP11-FRAME-01 STOMP12-FRAME-02")
def one_end_of_line_between_frames(reached, self):
    """More than one end of line between two frames is refused."""
    behind = self._data[self._at :].replace(b"\r", b"")
    if reached(self._grammar.version is not None and behind.startswith(b"\n\n")):
        raise self._refuse(refusal.UNKNOWN_COMMAND, "a frame begins with an empty line")


@framing.before(FrameParser, "next", breaks=f"{FRAME} STOMP10-FRAME-04")
def ends_of_line_add_up(reached, self):
    """Ends of line between frames count as part of the next one, which may have 4 MiB."""
    behind = self._data[self._at :]
    rest = behind.lstrip(b"\r\n")
    self.noise = getattr(self, "noise", 0) + len(behind) - len(rest)
    if reached(self.noise > 2**22):
        raise self._refuse(refusal.UNKNOWN_COMMAND, "a frame begins with too many empty lines")
    self.noise = 0 if rest else self.noise


@framing.override(FrameParser, "_head", breaks="STOMP11-FRAME-02 STOMP12-FRAME-03")
def commands_in_any_case(original, reached, self, block):
    """Commands are case-insensitive."""
    command, newline, rest = block.partition(b"\n")
    return original(self, reached.instead(block, command.upper() + newline + rest))


@framing.override(FrameParser, "_header", breaks="STOMP11-FRAME-02 STOMP12-FRAME-03")
def header_names_in_small_letters(original, reached, self, line, number):
    """Header names are converted to lower case."""
    name, value = original(self, line, number)
    return reached.instead((name, value), (name.lower(), value))


@framing.override(FrameParser, "_header", breaks="STOMP11-ENC-09 STOMP12-ENC-10")
def values_trimmed(original, reached, self, line, number):
    """Blanks around header values are removed in every version."""
    name, value = original(self, line, number)
    if self._grammar.version in (None, Version.V1_0):
        return name, value
    return reached.instead((name, value), (name, value.strip(" \t")))


@framing.override(FrameParser, "_header", breaks="STOMP11-ENC-09 STOMP12-ENC-10")
def names_trimmed(original, reached, self, line, number):
    """Blanks around header names are removed."""
    name, value = original(self, line, number)
    return reached.instead((name, value), (name.strip(" \t"), value))


@framing.override(FrameParser, "_header", breaks="STOMP11-ENC-09 STOMP12-ENC-10")
def connect_trimmed(original, reached, self, line, number):
    """Blanks around the values of CONNECT are removed, including those of the passcode."""
    name, value = original(self, line, number)
    if self._grammar.version is not None:
        return name, value
    return reached.instead((name, value), (name, value.strip()))


@framing.override(FrameParser, "_header")
@breaks("STOMP10-FRAME-03 STOMP11-FRAME-03 STOMP12-FRAME-05")
def empty_values_refused(original, reached, self, line, number):
    """A header without a value counts as malformed."""
    name, value = original(self, line, number)
    if reached(not value and self._grammar.version is not None):
        raise self._refuse(refusal.MALFORMED_HEADER, f"line {number} has no value")
    return name, value


@framing.amends(FrameParser, "_head", breaks="STOMP12-REPEAT-02")
def last_entry_counts(reached, head, self, block):
    """Of several headers with one name the last one counts."""
    head.first = reached.instead(head.first, dict(head.headers))


@framing.result(FrameParser, "_header", breaks="STOMP10-FRAME-03")
def value_from_the_last_colon(right, self, line, number):
    """In 1.0 a value begins at the last colon of its line."""
    if self._grammar.version is not Version.V1_0:
        return right
    name, _, value = self._text(line, number).rpartition(":")
    return (name, value.lstrip(" "))


@framing.result(FrameParser, "_text")
@breaks(
    "STOMP11-ENC-01 STOMP12-ENC-01 STOMP11-HDR-10 STOMP12-HDR-14 STOMP11-SEND-06 STOMP12-SEND-06"
)
def headers_in_latin_1(right, self, line, number):
    """Header text is read as ISO 8859-1."""
    return line.decode("latin-1")


@framing.result(FrameParser, "_text", recreates="AMQ-8398")
@breaks("STOMP11-ENC-01 STOMP12-ENC-01 STOMP11-HDR-10 STOMP12-HDR-14")
def supplementary_characters_lost(right, self, line, number):
    """Characters beyond the basic plane are lost in the broker's text encoding."""
    return "".join(character if character <= "\uffff" else "??" for character in right)


# --- bodies ---------------------------------------------------------------------------------------


@framing.result(FrameParser, "_content_length", breaks=LENGTH)
def content_length_ignored(right, self, headers):
    """The body ends at the first NUL although there is a content-length."""
    return


@framing.mutant(LENGTH, recreates="AMQ-2822")
def content_length_lost_in_pieces(patch, reached):
    """When a frame arrives in pieces its content-length is forgotten: the body ends at the first
    NUL."""
    patch.set(FrameParser, "forget", False)

    @patch.override(FrameParser)
    def _wait(original, self, at, body_at=None, whole=None):
        self.forget = self.forget or body_at is not None
        if reached(whole is not None):
            self._heads.clear()
        original(self, at, body_at)

    @patch.result(FrameParser)
    def _content_length(right, self, headers):
        return None if self.forget else right

    @patch.result(FrameParser)
    def next(token, self):
        if token is not None:
            self.forget = False
            self._heads.clear()
        return token


@framing.amends(FrameParser, "_head", breaks="STOMP12-HDR-03", recreates="AMQ-3653")
def content_length_only_for_send(reached, head, self, block):
    """ACK, BEGIN and the other frames without a body are refused when they have a content-length of
    0."""
    if reached(head.content_length is not None and head.command not in self._grammar.with_body):
        raise self._refuse(refusal.BODY_NOT_ALLOWED, f"a {head.command} frame has no length", head)


@framing.override(StompConnection, "_refuse", recreates="rabbitmq-server commit 4d58acb29c")
@breaks("STOMP11-SEND-07 STOMP12-SEND-07")
def bad_content_length_ends_in_silence(original, reached, self, problem, frame=None):
    """A non-numeric content-length crashes the reader: the connection ends without an ERROR."""
    if reached(problem.message == refusal.BAD_CONTENT_LENGTH.message):
        self.close()
    else:
        original(self, problem, frame)


@framing.amends(FrameParser, "next", breaks="STOMP10-SEND-06 STOMP11-HDR-04 STOMP12-HDR-04")
def nul_left_behind(reached, frame, self):
    """The NUL after a counted body becomes the beginning of the next frame."""
    if reached(frame is not None and frame.head.content_length):
        self._at -= 1


@framing.amends(FrameParser, "next", breaks=LENGTH)
def bodies_cut_at_4096(reached, frame, self):
    """Bodies are cut after 4096 bytes."""
    if frame is not None:
        frame.body = reached.instead(frame.body, frame.body[:4096])


@framing.amends(FrameParser, "next", breaks="STOMP10-MESSAGE-04 STOMP11-FRAME-01 STOMP12-FRAME-02")
def bodies_are_text(reached, frame, self):
    """A body without content-length is decoded as text, and invalid UTF-8 is replaced."""
    if frame is not None and frame.head.content_length is None:
        frame.body = reached.instead(frame.body, frame.body.decode(errors="replace").encode())


@framing.amends(FrameParser, "next", breaks=LENGTH)
def end_of_line_before_body_dropped(reached, frame, self):
    """An LF at the beginning of a body is read as part of the headers."""
    if frame is not None:
        frame.body = reached.instead(frame.body, frame.body.removeprefix(b"\n"))


@framing.mutant("STOMP10-SUBSCRIBE-06")
def body_of_subscribe_refused(patch, reached):
    """A 1.0 SUBSCRIBE with a body is refused instead of its body being ignored."""
    regrammar(patch, Version.V1_0, with_body=frozenset({"SEND"}))

    @patch.before(FrameParser)
    def _check_body(self, head, size):
        without_body = head.command not in self._grammar.with_body
        reached(size and without_body and self._grammar.version is Version.V1_0)
