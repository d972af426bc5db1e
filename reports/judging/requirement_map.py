"""The requirement that each kind of anomaly breaks, by profile. There is none if the family
promises nothing."""

from collections.abc import Mapping

from brokerproof.harness.oracles import connection_lifetimes, recorded_anomalies
from brokerproof.harness.oracles.connection_reader import AMQP091, CORE, STOMP

_ARTEMIS = {
    "phantom": "ARTEMIS-CONCEPTS-queue-1",
    "shared": "ARTEMIS-CONCEPTS-queue-1",
    "lost": "ARTEMIS-CONCEPTS-queue-1",
    "revived": "ARTEMIS-CONCEPTS-queue-2",
    "disordered": "ARTEMIS-GROUPING-fifo-1",
    "mismarked": "ARTEMIS-REDELIVERY-marked-1",
    "unmarked": "ARTEMIS-REDELIVERY-marked-1",
    "overrun": "ARTEMIS-STOMP-window-3",
    connection_lifetimes.SILENT: "STOMP12-HB-07",
    connection_lifetimes.EARLY: "ARTEMIS-STOMP-ttl-3",
    connection_lifetimes.LATE: "ARTEMIS-STOMP-ttl-3",
}
STATEMENTS: Mapping[str, Mapping[str, str]] = {"artemis": _ARTEMIS}
"""The requirement by profile and kind. For other profiles, only the protocol's own requirements
apply."""

_CORE = {
    kind: requirement
    for kind, requirement in _ARTEMIS.items()
    if not requirement.startswith(("ARTEMIS-STOMP", "STOMP"))
}
_AMQP091 = {
    "disordered": "AMQP091-PUB-04",
    "mismarked": "AMQP091-RED-01",
    "unmarked": "AMQP091-RED-01",
}
"""The promises of the protocol, for brokers of any family."""

KINDS = (*recorded_anomalies.KINDS, *connection_lifetimes.KINDS)


def statement(profile: str, kind: str, protocol: str = STOMP) -> str:
    """Return the requirement that an anomaly on a connection of that protocol breaks, or ""."""
    if protocol == AMQP091:
        return _AMQP091.get(kind, "")
    if protocol == CORE:
        return _CORE.get(kind, "") if profile == "artemis" else ""
    return STATEMENTS.get(profile, {connection_lifetimes.SILENT: "STOMP12-HB-07"}).get(kind, "")
