"""What one run of a case left behind: the trace, the findings, the measurements, the octets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.protocols.byte_log import WireLog
from brokerproof.harness.trace.events import Event


@dataclass
class ExampleRecord:
    """What a bench collected: the trace, the findings, and the measurements by label."""

    events: list[Event] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)
    wire: WireLog = field(default_factory=WireLog)
    failing: list[ExampleRecord] = field(default_factory=list)
    """Of a property: the outcomes of the examples that violated something."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """The drawn arguments of the example."""
    seed: int = 0
