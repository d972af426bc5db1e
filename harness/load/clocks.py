"""Measures the difference between two clocks by queries. An answer that took ``rtt`` is accurate to
half of that time.

Each machine's monotonic time starts when that machine boots. A driver asks the conductor for the
time several times before and after a load, and the quickest answer is used. Processes on one
machine share a clock, so nothing is added."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from brokerproof.harness.model.time import Duration, Instant

TIMES = 20
"""The number of exchanges."""


class Exchange(NamedTuple):
    """When we asked and when the answer arrived, by our clock, and the driver's time in between."""

    asked: Instant
    theirs: Instant
    answered: Instant


@dataclass(frozen=True, slots=True)
class ClockSample:
    """At ``at`` on our clock, the driver's clock was ``offset`` ahead, give or take
    ``uncertainty``."""

    at: Instant
    offset: Duration
    uncertainty: Duration

    @classmethod
    def of(cls, exchanges: Sequence[Exchange]) -> Self:
        """Return the reading of the quickest exchange."""
        best = min(exchanges, key=lambda exchange: exchange.answered - exchange.asked)
        rtt = best.answered - best.asked
        return cls(best.answered, best.theirs - (best.asked + rtt // 2), -(-rtt // 2))

    def data(self) -> dict[str, int]:
        return dataclasses.asdict(self)


def boot() -> str:
    """Return an id of this machine's boot: processes with the same id share a monotonic clock."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text("ascii").strip() if path.is_file() else ""


def stated(
    driver: int, host: str, same: bool, before: Mapping[str, Any], after: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a run header's entry on one driver's clock. ``added_ns`` is the correction of the
    driver's instants. ``drift_ns`` is how far the clocks diverged during the load, as far as the
    accuracy of both readings can show it."""
    data: dict[str, Any] = {
        "driver": driver,
        "host": host,
        "same_clock": same,
        "added_ns": 0 if same else before["offset"],
        "offset_ns": before["offset"],
        "uncertainty_ns": before["uncertainty"],
    }
    if after is not None:
        data["drift_ns"] = after["offset"] - before["offset"]
        data["drift_uncertainty_ns"] = after["uncertainty"] + before["uncertainty"]
    return data
