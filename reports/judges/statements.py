"""Which statement of which document each kind of irregularity breaks, by profile; none where the family promises nothing."""

from __future__ import annotations

from collections.abc import Mapping

from harness.oracles import lives, recording

_ARTEMIS = {
    "phantom": "ARTEMIS-CONCEPTS-queue-1",
    "shared": "ARTEMIS-CONCEPTS-queue-1",
    "lost": "ARTEMIS-CONCEPTS-queue-1",
    "revived": "ARTEMIS-CONCEPTS-queue-2",
    "disordered": "ARTEMIS-GROUPING-fifo-1",
    "mismarked": "ARTEMIS-REDELIVERY-marked-1",
    "unmarked": "ARTEMIS-REDELIVERY-marked-1",
    "overrun": "ARTEMIS-STOMP-window-3",
    lives.SILENT: "STOMP12-HB-07",
    lives.EARLY: "ARTEMIS-STOMP-ttl-3",
    lives.LATE: "ARTEMIS-STOMP-ttl-3",
}
STATEMENTS: Mapping[str, Mapping[str, str]] = {"artemis": _ARTEMIS}
"""By profile and kind. Of other profiles only what the protocol itself says counts."""

KINDS = (*recording.KINDS, *lives.KINDS)


def statement(profile: str, kind: str) -> str:
    """The requirement that an irregularity breaks, or an empty string."""
    return STATEMENTS.get(profile, {lives.SILENT: "STOMP12-HB-07"}).get(kind, "")
