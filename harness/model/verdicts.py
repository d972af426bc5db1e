"""Requirement levels, oracle observations, and verdicts."""

import enum

from brokerproof.harness.model.enums import StrEnum


class Level(StrEnum):
    """The strength of a requirement. DOC: stated in a vendor's own documentation, and judged
    separately from specifications. READING: our interpretation of a silent or ambiguous text;
    results are recorded but never counted against a broker."""

    MUST = enum.auto()
    SHOULD = enum.auto()
    MAY = enum.auto()
    DOC = enum.auto()
    READING = enum.auto()

    @property
    def words(self) -> str:
        return {"DOC": "the vendor's manual", "READING": "our reading"}.get(self.name, self.name)


class Impact(StrEnum):
    """The harm to an application if a requirement is violated. The worst comes first, as in
    reports."""

    LOSS = "loss"
    SECURITY = "security"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    STALL = "stall"
    DISCONNECT = "disconnect"
    INTEROPERABILITY = "interoperability"
    COSMETIC = "cosmetic"

    @property
    def words(self) -> str:
        """The impact in words that suit a person on call."""
        return f"{self.value}: {_HARM[self]}"


_HARM = {
    Impact.LOSS: "messages may be lost or damaged",
    Impact.SECURITY: "a peer may get access that it has no right to, or exceed a limit",
    Impact.DUPLICATE: "messages may be processed twice",
    Impact.REORDER: "messages may arrive out of order",
    Impact.STALL: "consumers or producers may hang, or be flooded",
    Impact.DISCONNECT: "connections may drop, or dead ones may linger",
    Impact.INTEROPERABILITY: "some clients may fail or misread the broker",
    Impact.COSMETIC: "applications hardly notice",
}


class Seen(StrEnum):
    HELD = enum.auto()
    VIOLATED = enum.auto()
    NEVER_REACHED = enum.auto()
    """The situation that the requirement concerns never arose, so the case has no evidence."""
    UNMET = enum.auto()
    """The requirement was not tested: the broker refused or lacked something on which the case
    relies."""
    NOT_APPLICABLE = enum.auto()
    """The case was completed, but the requirement does not apply: its premise did not hold, or the
    manual of this release does not contain it."""


class Verdict(StrEnum):
    """What a finding means for the broker. The worst comes first: when verdicts are merged, the
    first wins."""

    ERROR = enum.auto()
    FAIL = enum.auto()
    INCONCLUSIVE = enum.auto()
    KNOWN = enum.auto()
    WARN = enum.auto()
    SKIP = enum.auto()
    NOTE = enum.auto()
    PASS = enum.auto()
