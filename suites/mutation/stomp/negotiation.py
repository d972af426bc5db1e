"""Faults in choosing the version of a session."""

from dataclasses import replace

from brokerproof.reference_broker.protocols.stomp import opening, refusal
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.grammar import GRAMMARS
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group, breaks
from brokerproof.suites.mutation.stomp.shared_faults import cut_off, kept, with_header

negotiation = Group("negotiation")

HIGHEST = "STOMP11-NEGO-04 STOMP12-NEGO-04"
NONE = "STOMP11-NEGO-05 STOMP12-NEGO-05"


@negotiation.result(opening, "choose_version", breaks=HIGHEST)
def lowest_version(right, accepted):
    """The session uses the lowest common version."""
    offered = (accepted or "1.0").split(",")
    return next((other for other in Version if other.wire in offered), right)


@negotiation.result(opening, "choose_version", breaks=HIGHEST)
def first_listed(right, accepted):
    """The session uses the first version of the client's list that the server supports."""
    by_name = {other.wire: other for other in Version}
    return next((by_name[x] for x in (accepted or "").split(",") if x in by_name), right)


@negotiation.result(opening, "choose_version", breaks=HIGHEST)
def last_listed(right, accepted):
    """The session uses the last version of the client's list that the server supports."""
    by_name = {other.wire: other for other in Version}
    known = [by_name[x] for x in (accepted or "").split(",") if x in by_name]
    return known[-1] if known else right


@negotiation.override(opening, "choose_version", breaks=f"{HIGHEST} {NONE}")
def beginning_is_enough(original, reached, accepted):
    """A version is recognised by its beginning: 1.20 is mistaken for 1.2."""
    if accepted is None:
        return original(accepted)
    return original(reached.instead(accepted, ",".join(part[:3] for part in accepted.split(","))))


@negotiation.result(opening, "choose_version", breaks="STOMP11-NEGO-03 STOMP12-NEGO-03")
def newest_without_header(right, accepted):
    """A CONNECT without accept-version opens a session of 1.2."""
    return right if accepted is not None else Version.V1_2


@negotiation.override(opening, "choose_version", breaks=f"{NONE} {HIGHEST}")
def strangers_get_1_0(original, reached, accepted):
    """A client without a common version gets a 1.0 session."""
    try:
        return original(accepted)
    except Refusal:
        reached()
        return Version.V1_0


@negotiation.override(opening, "choose_version", breaks="STOMP11-NEGO-05")
def versions_not_named(original, reached, accepted):
    """The ERROR for a client without a common version does not list the supported ones."""
    try:
        return original(accepted)
    except Refusal:
        reached()
        raise Refusal(refusal.NO_COMMON_VERSION, Version.V1_2, "speak another version") from None


@negotiation.variant(kept, refusal.NO_COMMON_VERSION)
@breaks("STOMP11-NEGO-05 STOMP12-NEGO-05 STOMP11-CONNECT-03 STOMP12-CONNECT-03")
def strangers_are_kept():
    """After the ERROR for a client without a common version the connection stays open."""


@negotiation.variant(cut_off, refusal.NO_COMMON_VERSION)
@breaks("STOMP12-NEGO-05 STOMP11-NEGO-05 STOMP11-CONNECT-03 STOMP12-CONNECT-03")
def strangers_are_cut_off():
    """A client without a common version is disconnected without an ERROR."""


def _saying(patch, reached, version):
    @patch.override(FrameEncoder)
    def frame(original, self, command, headers, body=b""):
        if command == "CONNECTED" and dict(headers).get("version") is not None:
            headers = reached.instead(headers, with_header(headers, "version", version))
        return original(self, command, headers, body)


@negotiation.variant(_saying, None)
@breaks("STOMP11-CONNECTED-01 STOMP12-CONNECTED-01 STOMP12-FH-02")
def version_not_said():
    """CONNECTED has no version."""


@negotiation.variant(_saying, "1.2", breaks="STOMP11-CONNECTED-01 STOMP11-NEGO-04 STOMP12-NEGO-04")
def always_says_1_2():
    """CONNECTED always states version 1.2."""


@negotiation.mutant("STOMP11-NEGO-04 STOMP12-NEGO-04 STOMP11-ENC-04 STOMP12-ENC-05")
def reads_as_1_0(patch, reached):
    """Frames of 1.1 and 1.2 sessions are read by the rules of 1.0."""
    old = replace(GRAMMARS[Version.V1_0], commands=GRAMMARS[Version.V1_2].commands)
    for version in Version:
        patch.set(GRAMMARS, version, old)

    @patch.after(StompConnection)
    def _connect(self, now, frame):
        reached(self.version is not Version.V1_0)


@negotiation.amends(opening, "choose_version")
@breaks("ARTEMIS-STOMP-versions-1 STOMP11-NEGO-03 STOMP12-NEGO-03 STOMP10-CONNECT-02")
def without_1_0(reached, right, accepted):
    """Clients of 1.0 are refused."""
    if reached(right is Version.V1_0):
        raise Refusal(refusal.NO_COMMON_VERSION, Version.V1_2, "1.0 is too old")
