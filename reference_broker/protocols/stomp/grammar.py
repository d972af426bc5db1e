"""The differences between the versions as data: one :class:`Grammar` for each version, and one for
the first frame.

===================  ==========  ==========  ==========  ==========
rule                 opening     1.0         1.1         1.2
===================  ==========  ==========  ==========  ==========
end of line          LF, CR LF   LF          LF          LF, CR LF
escapes              none        none        n c \\\\      r n c \\\\
colon in a value     allowed     allowed     refused     refused
bare CR in a value   allowed     allowed     allowed     refused
leading spaces       kept        stripped    kept        kept
body elsewhere       refused     ignored     refused     refused
===================  ==========  ==========  ==========  ==========

"Opening" is the CONNECT or STOMP frame, which precedes the choice of a version and is never
escaped. It allows either end of line, because a client that supports 1.2 may use both.

Two choices where 1.0 is silent: its examples put a space after the colon, but its text does not say
whether that belongs to the value (STOMP10-FRAME-08). We strip leading spaces from values, as those
examples need, and leave everything else alone. The 1.0 grammar requires ASCII (STOMP10-FRAME-05);
we read UTF-8, which includes ASCII.

A NUL in a header is legal in every version, because the grammars exclude only LF, CR and the colon.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from brokerproof.reference_broker.protocols.stomp.frame import Version

_CLIENT_1_0 = frozenset(
    {"SEND", "SUBSCRIBE", "UNSUBSCRIBE", "BEGIN", "COMMIT", "ABORT", "ACK", "DISCONNECT"}
)
_CLIENT = _CLIENT_1_0 | {"NACK"}
_CONNECT = frozenset({"CONNECT", "STOMP"})


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules for reading frames. ``escapes`` maps the byte after a backslash to the escaped
    character; None means no escapes."""

    version: Version | None
    commands: frozenset[str]
    """Frames that a client may send."""
    with_body: frozenset[str]
    """Frames that may have a body."""
    escapes: Mapping[str, str] | None = None
    crlf: bool = False
    """True if a line may end with CR LF."""
    bare_cr: bool = True
    colon_in_value: bool = True
    strip_leading_spaces: bool = False

    @property
    def effective(self) -> Version:
        """The version to cite: the newest version until one is agreed on."""
        return Version.V1_2 if self.version is None else self.version


OPENING = Grammar(None, _CONNECT, frozenset(), crlf=True)

GRAMMARS: dict[Version, Grammar] = {
    Version.V1_0: Grammar(Version.V1_0, _CLIENT_1_0, _CLIENT_1_0, strip_leading_spaces=True),
    Version.V1_1: Grammar(
        Version.V1_1,
        _CLIENT,
        frozenset({"SEND"}),
        escapes={"n": "\n", "c": ":", "\\": "\\"},
        colon_in_value=False,
    ),
    Version.V1_2: Grammar(
        Version.V1_2,
        _CLIENT,
        frozenset({"SEND"}),
        escapes={"r": "\r", "n": "\n", "c": ":", "\\": "\\"},
        crlf=True,
        bare_cr=False,
        colon_in_value=False,
    ),
}
