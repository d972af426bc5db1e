"""Decides which passing examples of a property are recorded in virtual time.

Generated histories repeat themselves, and a report reads every recorded event. So examples are
recorded until their events reach a budget. After that, an example is recorded only if it decides a
finding, reaches a situation for the first time, or has a measurement nearer to a bound than all
earlier ones. The same applies to an example that alone exceeds the budget. A property that tries
large amounts begins with a small one, which shows the same behaviour. Unrecorded examples are
judged as they run, and the result counts them. In virtual time nothing is lost: the same seed
reproduces the same events. Real time has no budget, because a real broker's behaviour cannot be
reproduced."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from brokerproof.harness.model.finding import Finding, combine

EVENTS = 2_000
"""The budget of a case. The example that reaches the budget is recorded in full."""


@dataclass(slots=True)
class RecordingBudget:
    most: int = field(default_factory=lambda: EVENTS)
    """The budget. An example with more events than this is recorded only for a special reason."""
    _spent: int = 0
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
        """Return True if the next passing example must be recorded, and count its events.

        ``nearer_to_bound`` is true if one of its measurements replaces an earlier one of the
        case."""
        combined = combine([*self._findings, *findings])
        reached = self._situations.union(situations)
        adds = nearer_to_bound or combined != self._findings or reached != self._situations
        self._findings, self._situations = combined, reached
        if max(self._spent + 1, events) > self.most and not adds:
            return False
        self._spent += events
        return True
