"""The certainty of a failure: how often it occurred, and why the host's lateness does not explain
it."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.time import Duration
from brokerproof.harness.results.records import Result
from brokerproof.reports.model.quantities import duration, rounded_up
from brokerproof.reports.sources.recorded_cases import RecordedCase
from brokerproof.reports.sources.runs import Run

CLEARLY_LONGER = 10
"""If a wait was this many times the host's worst lateness, that lateness does not explain the wait,
even if several threads were late in turn."""
_TRAFFIC = frozenset(
    (
        *("FrameSent", "FrameReceived", "HeartBeatSent", "HeartBeatReceived"),
        *("OctetsSent", "OctetsRefused", "ConnectionOpened", "ConnectionClosed"),
    )
)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A failure as recorded: ``violated`` of ``examples`` (both 0 unless the case is a property).

    ``waited_ns`` is the shortest time without traffic before a violation; None if no such time was
    recorded."""

    examples: int
    violated: int
    waited_ns: Duration | None


def sighting(
    recorded: RecordedCase, requirements: Collection[str], unrecorded: int = 0
) -> Sighting:
    """Return how the recording of a case shows the violation of ``requirements``. ``unrecorded`` is
    the number of passed examples that were not recorded."""
    columns = (recorded.column(name) for name in ("kind", "at_ns", "seen", "requirement"))
    last: dict[int, int] = {}
    violated: set[int] = set()
    waits: list[Duration] = []
    parts = recorded.parts.tolist()
    for part, kind, at, seen, requirement in zip(parts, *columns, strict=True):
        if kind in _TRAFFIC:
            last[part] = at
        elif kind == "Judged" and seen == "VIOLATED" and requirement in requirements:
            violated.add(part)
            waits += [at - last[part]] if part in last else []
    examples = parts[-1] + unrecorded if parts and parts[-1] else 0
    waited = min(waits, default=None)
    return Sighting(examples, len(violated - {0}) if examples else 0, waited)


@dataclass(frozen=True, slots=True)
class Certainty:
    """Why a failure is the broker's fault and not the host's. ``whole`` is more detailed than
    ``brief``; both are empty if the run does not record the reason."""

    whole: str = ""
    brief: str = ""


def certainty(
    run: Run, target: str, failed: Sequence[Result], sightings: Iterable[Sighting]
) -> Certainty:
    """Return the certainty of the failure on ``target`` that the results ``failed`` share."""
    facts = next((facts for facts in run.targets if facts["name"] == target), {})
    # A proxy observes traffic only once, so it must not claim that a failure was repeated.
    match facts.get("clock") if facts.get("kind") != "proxy" else None:
        case Clock.VIRTUAL:
            sentence = "found in virtual time, where every run with this seed is the same"
            return Certainty(sentence, sentence)
        case Clock.REAL:
            seen_by = list(sightings)
            repeated = _repeated(seen_by)
            usual, worst = _lateness(run, target)
            if worst is None:
                return Certainty(repeated, repeated)
            unexplained = _unexplained(worst, failed, seen_by)
            late = f"at most {duration(rounded_up(worst))} late"
            late += f", {unexplained}" if unexplained else ""
            whole = f"{repeated}; this host woke threads {late}"
            if usual is not None:
                whole += f"; in 99 of 100 measurements at most {duration(rounded_up(usual))}"
            return Certainty(whole, f"{repeated}; this host was {late}")
    return Certainty()


def _repeated(sightings: Sequence[Sighting]) -> str:
    # These failures recurred, because one that does not is INCONCLUSIVE
    # (harness/cases/execution.py).
    examples = sum(sighting.examples for sighting in sightings)
    violated = sum(sighting.violated for sighting in sightings)
    if not violated:
        return "found again when the case was repeated"
    return f"found in {violated} of {examples} examples, and again when the case was repeated"


def _unexplained(worst: Duration, failed: Iterable[Result], seen_by: Iterable[Sighting]) -> str:
    """Return why a lateness of at most ``worst`` does not explain the failure; empty if it
    might."""
    distances = [
        -distance
        for result in failed
        for value in result.measurements.values()
        if value.unit == "ns" and (distance := value.distance_to_bound) is not None and distance < 0
    ]
    if distances:
        beyond = max(distances)
        outside = f"which cannot explain {duration(beyond)} outside the interval"
        return outside if beyond > worst else ""
    waits = [sighting.waited_ns for sighting in seen_by if sighting.waited_ns is not None]
    if waits and min(waits) >= CLEARLY_LONGER * worst:
        return f"which cannot explain a wait of {duration(round(min(waits), -8))}"
    return ""


def _lateness(run: Run, target: str) -> tuple[Duration | None, Duration | None]:
    """Return the 99th percentile and the maximum of the host's lateness."""
    try:
        canary = run.header["host"]["canary"][target]
        return int(canary["p99_ns"]), int(canary["worst_ns"])
    except (KeyError, TypeError, ValueError):
        return None, None
