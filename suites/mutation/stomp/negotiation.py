"""Faults in choosing the version of a session."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Frame, Headers, Version
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group, Reached
from brokerproof.suites.mutation.stomp.refusing import cut_off, kept

negotiation = Group("negotiation")

HIGHEST = "STOMP11-NEGO-04 STOMP12-NEGO-04"
NONE = "STOMP11-NEGO-05 STOMP12-NEGO-05"


@negotiation.mutant(HIGHEST)
def lowest_version(parts: Parts, reached: Reached) -> Parts:
    """The session uses the lowest version that both sides have."""

    class Faulty(StompConnection):
        def _choose(self, accepted: str | None) -> Version:
            right = super()._choose(accepted)
            offered = (accepted or "1.0").split(",")
            return reached.instead(
                right, next((each for each in Version if each.wire in offered), right)
            )

    return replace(parts, stomp=Faulty)


@negotiation.mutant(HIGHEST)
def first_listed(parts: Parts, reached: Reached) -> Parts:
    """The session uses the first version of the client's list that the server has."""

    class Faulty(StompConnection):
        def _choose(self, accepted: str | None) -> Version:
            right = super()._choose(accepted)
            by_name = {each.wire: each for each in Version}
            return reached.instead(
                right,
                next((by_name[x] for x in (accepted or "").split(",") if x in by_name), right),
            )

    return replace(parts, stomp=Faulty)


@negotiation.mutant(HIGHEST)
def last_listed(parts: Parts, reached: Reached) -> Parts:
    """The session uses the last version of the client's list that the server has."""

    class Faulty(StompConnection):
        def _choose(self, accepted: str | None) -> Version:
            right = super()._choose(accepted)
            by_name = {each.wire: each for each in Version}
            known = [by_name[x] for x in (accepted or "").split(",") if x in by_name]
            return reached.instead(right, known[-1] if known else right)

    return replace(parts, stomp=Faulty)


@negotiation.mutant(f"{HIGHEST} {NONE}")
def beginning_is_enough(parts: Parts, reached: Reached) -> Parts:
    """A version is recognised by its beginning: 1.20 is taken for 1.2."""

    class Faulty(StompConnection):
        def _choose(self, accepted: str | None) -> Version:
            if accepted is None:
                return super()._choose(accepted)
            return super()._choose(
                reached.instead(accepted, ",".join(each[:3] for each in accepted.split(",")))
            )

    return replace(parts, stomp=Faulty)


@negotiation.mutant("STOMP11-NEGO-03 STOMP12-NEGO-03")
def newest_without_header(parts: Parts, reached: Reached) -> Parts:
    """A CONNECT without accept-version opens a session of 1.2."""

    class Faulty(StompConnection):
        def _choose(self, accepted: str | None) -> Version:
            right = super()._choose(accepted)
            return right if accepted is not None else reached.instead(right, Version.V1_2)

    return replace(parts, stomp=Faulty)


@negotiation.mutant(f"{NONE} STOMP11-NEGO-04 STOMP12-NEGO-04")
def strangers_get_1_0(parts: Parts, reached: Reached) -> Parts:
    """A client with which there is no common version gets a 1.0 session."""

    class Faulty(StompConnection):
        def _choose(self, accepted: str | None) -> Version:
            try:
                return super()._choose(accepted)
            except Refusal:
                reached()
                return Version.V1_0

    return replace(parts, stomp=Faulty)


@negotiation.mutant("STOMP11-NEGO-05")
def versions_not_named(parts: Parts, reached: Reached) -> Parts:
    """The ERROR for a client without a common version does not say which versions there are."""

    class Faulty(StompConnection):
        def _choose(self, accepted: str | None) -> Version:
            try:
                return super()._choose(accepted)
            except Refusal:
                reached()
                raise Refusal(
                    refusal.NO_COMMON_VERSION, Version.V1_2, "speak another version"
                ) from None

    return replace(parts, stomp=Faulty)


@negotiation.mutant(f"{NONE} STOMP11-CONNECT-03 STOMP12-CONNECT-03")
def strangers_are_kept(parts: Parts, reached: Reached) -> Parts:
    """After the ERROR for a client without a common version the connection stays open."""
    return kept(parts, reached, refusal.NO_COMMON_VERSION)


@negotiation.mutant("STOMP12-NEGO-05 STOMP11-NEGO-05 STOMP11-CONNECT-03 STOMP12-CONNECT-03")
def strangers_are_cut_off(parts: Parts, reached: Reached) -> Parts:
    """A client without a common version is closed without an ERROR."""
    return cut_off(parts, reached, refusal.NO_COMMON_VERSION)


def _saying(parts: Parts, reached: Reached, version: str | None) -> Parts:
    class Faulty(FrameEncoder):
        def frame(self, command: str, headers: Headers, body: bytes = b"") -> bytes:
            if command == "CONNECTED" and dict(headers).get("version") is not None:
                wrong = tuple(
                    ("version", version) if name == "version" else (name, value)
                    for name, value in headers
                )
                headers = reached.instead(
                    headers, tuple(each for each in wrong if each[1] is not None)
                )
            return super().frame(command, headers, body)

    return replace(parts, encoder=Faulty)


@negotiation.mutant("STOMP11-CONNECTED-01 STOMP12-CONNECTED-01 STOMP12-FH-02")
def version_not_said(parts: Parts, reached: Reached) -> Parts:
    """CONNECTED has no version."""
    return _saying(parts, reached, None)


@negotiation.mutant("STOMP11-CONNECTED-01 STOMP11-NEGO-04 STOMP12-NEGO-04")
def always_says_1_2(parts: Parts, reached: Reached) -> Parts:
    """CONNECTED says version 1.2 whatever was agreed."""
    return _saying(parts, reached, "1.2")


@negotiation.mutant("STOMP11-NEGO-04 STOMP12-NEGO-04 STOMP11-ENC-04 STOMP12-ENC-05")
def reads_as_1_0(parts: Parts, reached: Reached) -> Parts:
    """Frames of 1.1 and 1.2 sessions are read by the rules of 1.0."""

    class Faulty(StompConnection):
        def _connect(self, now: int, frame: Frame) -> None:
            super()._connect(now, frame)
            if self.version is not Version.V1_0:
                reached()

    old = replace(parts.grammars[Version.V1_0], commands=parts.grammars[Version.V1_2].commands)
    return replace(parts, grammars=dict.fromkeys(Version, old), stomp=Faulty)


@negotiation.mutant("ARTEMIS-STOMP-versions-1 STOMP11-NEGO-03 STOMP12-NEGO-03 STOMP10-CONNECT-02")
def without_1_0(parts: Parts, reached: Reached) -> Parts:
    """Clients of 1.0 are turned away."""

    class Faulty(StompConnection):
        def _choose(self, accepted: str | None) -> Version:
            right = super()._choose(accepted)
            if right is Version.V1_0:
                reached()
                raise Refusal(refusal.NO_COMMON_VERSION, Version.V1_2, "1.0 is too old")
            return right

    return replace(parts, stomp=Faulty)
