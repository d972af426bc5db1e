"""Chooses the passing examples of a property whose events are recorded, in virtual time.

Generated histories repeat themselves, and a report reads every recorded event. Examples are
recorded until their events reach a budget. After that one is recorded only for what it adds: it
decides a finding, reaches a situation for the first time, or measures nearer to a bound than those
before. The others are judged as they run; the result counts them. Virtual time loses nothing by
it: the same seed runs the same example again, event by event. Real time has no budget, because
what a real broker did cannot be had again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from brokerproof.harness.model.finding import Finding, combine

EVENTS = 2_000
"""The budget of a case. The example that reaches it is recorded whole."""


@dataclass(slots=True)
class RecordingBudget:
    """The events of a case that are recorded, and what its examples have shown so far."""

    left: int = field(default_factory=lambda: EVENTS)
    """Events until the budget is spent; negative beyond it."""
    _findings: list[Finding] = field(default_factory=list)
    _situations: set[str] = field(default_factory=set)

    def records(
        self,
        events: int,
        findings: Iterable[Finding],
        situations: Iterable[str],
        *,
        nearer_to_bound: bool,
    ) -> bool:
        """Return True if the next passing example is recorded, and charge its events.

        ``nearer_to_bound``: it has a measurement that becomes the case's.
        """
        combined = combine([*self._findings, *findings])
        reached = self._situations.union(situations)
        adds = nearer_to_bound or combined != self._findings or reached != self._situations
        self._findings, self._situations = combined, reached
        if self.left <= 0 and not adds:
            return False
        self.left -= events
        return True
