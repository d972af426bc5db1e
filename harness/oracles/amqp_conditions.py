"""Error conditions (part 2, 2.8.15 to 2.8.18): a symbol that begins with ``amqp:`` must be in one
of the standard's lists.

The frame that carries an error sets its scope. The peer may use a condition from any list, so only
the spelling is checked. Symbols without the ``amqp:`` prefix are not checked."""

import re
from collections.abc import Sequence

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.protocols.amqp10.fact_reader import Side, WireFrame, frames
from brokerproof.harness.trace.events import Event

SHARED, CONNECTION, SESSION, LINK = (
    "AMQP10-ERR-01",
    "AMQP10-ERR-02",
    "AMQP10-ERR-03",
    "AMQP10-ERR-04",
)

_CONDITION = re.compile(r"\bcondition=([^,)]+)")
_OF_ALL = {
    "internal-error",
    "not-found",
    "unauthorized-access",
    "decode-error",
    "resource-limit-exceeded",
    "not-allowed",
    "invalid-field",
    "not-implemented",
    "resource-locked",
    "precondition-failed",
    "resource-deleted",
    "illegal-state",
    "frame-size-too-small",
}
_OF_A_SCOPE = {
    "connection": {"forced", "framing-error", "redirect"},
    "session": {"window-violation", "errant-link", "handle-in-use", "unattached-handle"},
    "link": {
        "detach-forced",
        "transfer-limit-exceeded",
        "message-size-exceeded",
        "redirect",
        "stolen",
    },
    "transaction": {"unknown-id", "rollback", "timeout"},
}
LISTED = frozenset(f"amqp:{rule}" for rule in _OF_ALL) | {
    f"amqp:{scope}:{name}" for scope, names in _OF_A_SCOPE.items() for name in names
}
"""Every condition in the standard, including those of transactions."""

_REQUIREMENT = {"connection": CONNECTION, "session": SESSION, "link": LINK}
_OF_FRAME = {"close": CONNECTION, "end": SESSION, "detach": LINK}


def condition_of(frame: WireFrame) -> str | None:
    """Return the condition of the error in ``frame``; None if there is none."""
    error = frame.fields.get("error") or (
        frame.fields.get("state") if frame.name == "disposition" else None
    )
    named = _CONDITION.search(error or "")
    return None if named is None else named.group(1)


def conditions(events: Sequence[Event], conn: int, side: Side = Side.BROKER) -> list[Finding]:
    """Check that the conditions of all errors sent by ``side`` are standard ones or have no
    ``amqp:`` prefix."""
    findings: list[Finding] = []
    for frame in frames(events, conn):
        if frame.side is not side or (condition := condition_of(frame)) is None:
            continue
        requirements = [SHARED, *(_OF_FRAME[rule] for rule in (frame.name,) if rule in _OF_FRAME)]
        wrong = condition.startswith("amqp:") and condition not in LISTED
        if wrong:
            scope = condition.split(":")[1]
            requirements = [_REQUIREMENT.get(scope, SHARED)]
        note = ", which the standard does not define" if wrong else ""
        detail = f"{frame.name} has the condition {condition}{note}"
        findings += [
            Finding(rule, Seen.VIOLATED if wrong else Seen.HELD, detail) for rule in requirements
        ]
    return findings or [Finding(SHARED, Seen.NEVER_REACHED, "no error arrived")]
