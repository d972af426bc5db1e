"""The record of one example: trace, findings, measurements, and the bytes on the wire."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerproof.harness.model.finding import Finding, Measurement
from brokerproof.harness.model.time import Duration
from brokerproof.harness.protocols.byte_log import ByteLog
from brokerproof.harness.protocols.conversation import ControlFailed
from brokerproof.harness.results.records import Unrecorded
from brokerproof.harness.trace.events import Event


@dataclass
class ExampleRecord:
    """Everything that a bench collected during one run of a case."""

    events: list[Event] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    held: set[tuple[str, str]] = field(default_factory=set)
    """The requirement and detail of each finding that held. Each such pair is recorded as one
    event."""
    measurements: dict[str, Measurement] = field(default_factory=dict)
    """Measurements by label. If several have the same label, the one nearest to a bound is kept."""
    wire: ByteLog = field(default_factory=ByteLog)
    failing: "list[ExampleRecord]" = field(default_factory=list)
    """The records of a property's examples that violated something."""
    unrecorded: Unrecorded = field(default_factory=Unrecorded)
    """The number of passing examples whose events are not in ``events``."""
    situations: dict[str, int] = field(default_factory=dict)
    """The number of examples that reached each situation, by the situation's name."""
    amounts: dict[str, int] = field(default_factory=dict)
    """The largest amount of each kind that an example used."""
    behaviours: dict[str, set[str]] = field(default_factory=dict)
    """The values observed of each behaviour."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """The drawn arguments of the example."""
    seed: int = 0
    case: str = ""
    unbound_end: str = ""
    """The violated sentence that ended the example, if that sentence binds only other vendors'
    brokers."""
    unmet: ControlFailed | None = None
    """The premise that failed, if this broker lacks the drawn kind of address."""
    late: Duration = 0
    """The host's worst lateness up to the point where the example was aborted; 0 if it ran to its
    end."""

    def measure(self, label: str, measurement: Measurement) -> bool:
        """Keep ``measurement`` unless the previous one with the same label is nearer to a bound.
        Return True if it was kept."""
        earlier = self.measurements.get(label)
        kept = earlier is None or _room(measurement) < _room(earlier)
        if kept:
            self.measurements[label] = measurement
        return kept


def _room(measurement: Measurement) -> float:
    distance = measurement.distance_to_bound
    return float("inf") if distance is None else distance
