"""The trace, the findings and the measurements of one case.

Findings receive their verdicts when the case ends (``execution.py``)."""

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from itertools import pairwise

from brokerproof.harness.cases.example_record import ExampleRecord
from brokerproof.harness.catalogue import behaviours
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.finding import Finding, Measurement
from brokerproof.harness.model.time import Duration, Instant, in_ms, ms
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.protocols.byte_log import Expectation, Violation
from brokerproof.harness.protocols.conversation import (
    ControlFailed,
    Judge,
    Requirements,
    Symptom,
    Violated,
)
from brokerproof.harness.targets.target import Target
from brokerproof.harness.trace.events import (
    Event,
    FrameReceived,
    FrameSent,
    HeartBeatReceived,
    IntervalExpected,
    JitterMeasured,
    Judged,
    Measured,
    Noted,
    OctetsRefused,
    OctetsSent,
)
from brokerproof.harness.worlds.world import World

MARGIN_FLOOR: Duration = ms(30)
"""In real time, an interval is widened on each side by at least this much …"""
MARGIN_SHARE = 50
"""… or by its bound divided by this number, if that is more. The host's measured lateness is
added."""
ON_TIME_SHARE = 20
"""A periodic sender's gap counts as measured on time if the host's lateness was less than the gap's
bound divided by this number. Such a measurement would show a sender that is late by a tenth."""


LATENESS_SHARE = 6
"""A duration that reaches its lower bound proves nothing if the host was too late: an event that
occurred too early, by the bound divided by this number, could then have been measured at the same
instant."""


class CaseRecord(Judge):
    """The trace and the findings of one case, in order.

    ``cited`` has the requirements of the case for its version, in the order of citation."""

    target: Target
    cited: tuple[str, ...]
    unbound: frozenset[str] = frozenset()
    """Cited requirements that bind only other vendors' brokers; nothing is recorded for these."""
    example_record: ExampleRecord
    world: World
    _inconclusive: str | None = None

    def now(self) -> Instant:
        return self.world.now()

    @property
    def virtual(self) -> bool:
        """True if time jumps. A case may choose sizes by this, but never expectations."""
        return self.world.clock is Clock.VIRTUAL

    @property
    def events(self) -> list[Event]:
        return self.example_record.events

    def record(self, event: Event) -> None:
        self.example_record.events.append(event)
        match event:
            case HeartBeatReceived():
                self.world.bounds.on_heartbeat_received(event.at_ns, event.conn)
            case FrameReceived() | OctetsRefused():
                self.world.bounds.on_frame_received(event.at_ns, event.conn)
            case FrameSent():
                self.world.bounds.on_sent(event.at_ns, self.example_record.case, event.command)
            case OctetsSent():
                sent = f"{event.size} raw bytes"
                self.world.bounds.on_sent(event.at_ns, self.example_record.case, sent)
            case _:
                pass

    def record_note(self, detail: str) -> None:
        """Add a step in words, for readers of the report."""
        self.record(Noted(at_ns=self.now(), detail=detail))

    def record_behaviour(self, name: str, observed: str | int | None) -> None:
        """Record a choice that a specification leaves to the broker: one of the values in
        ``fixtures/behaviours.toml``, or a number in the behaviour's unit.

        Raises ``ValueError`` for another value, and ``KeyError`` for an unlisted behaviour."""
        behaviour = behaviours.listed()[name]
        value = behaviour.value(observed)
        seen = self.example_record.behaviours.setdefault(name, set())
        if value not in seen:
            seen.add(value)
            self.record_note(f"{behaviour.question}: {value}")

    def mark_inconclusive(self, reason: str) -> None:
        """Record every later violation as uncertain, because a close may have lost bytes that would
        clear the broker.

        This method is sufficient, since every expectation uses :meth:`record_finding`."""
        self._inconclusive = reason

    def record_finding(
        self,
        requirements: Requirements,
        held: bool,
        detail: str,
        *,
        uncertain: str | None = None,
        expectation: Expectation | None = None,
    ) -> bool:
        """Record a finding for each of ``requirements`` and return ``held``; the case continues.

        ``uncertain`` says why a violation is no evidence against the broker. ``expectation`` is the
        expected outcome, for scripts that confirm a fix. Raises ``ValueError`` for a requirement
        that the case does not cite."""
        seen = Seen.HELD if held else Seen.VIOLATED
        named = _ids(requirements)
        reason = None if held else uncertain or self._inconclusive
        for requirement in named:
            self._keep(Finding(requirement, seen, detail, reason))
        if not held and not self.unbound.issuperset(named):
            wire = self.example_record.wire
            wire.violations.append(
                Violation(named, detail, expectation, len(wire.steps), self.now())
            )
        return held

    def record_held(self, requirements: Requirements, evidence: object, detail: str) -> None:
        """Record that each of ``requirements`` held, as shown by ``evidence``: the frames,
        deliveries or count concerned. Without evidence (None, 0, an empty collection), the
        requirement counts as never reached.

        Raises ``ValueError`` for True or False, which are conditions (:meth:`record_finding`)
        rather than evidence, and for a requirement that the case does not cite."""
        if isinstance(evidence, bool):
            raise ValueError(
                f"{evidence} is a condition; use record_finding, or pass what was observed"
            )
        is_empty = evidence is None or evidence == 0
        if is_empty or (isinstance(evidence, Sized) and not len(evidence)):
            self._never_reached(requirements, detail, "nothing was observed")
            return
        for requirement in _ids(requirements):
            self._keep(Finding(requirement, Seen.HELD, detail))

    def record_not_applicable(self, requirements: Requirements, reason: str) -> None:
        """Record that none of ``requirements`` applies here, and which premise failed. Raises
        ``ValueError`` for a requirement that the case does not cite."""
        for requirement in _ids(requirements):
            self._keep(Finding(requirement, Seen.NOT_APPLICABLE, reason))

    def _never_reached(self, requirements: Requirements, detail: str, reason: str) -> None:
        for requirement in _ids(requirements):
            self._keep(Finding(requirement, Seen.NEVER_REACHED, detail, reason))

    def record_aftermath(self, finding: Finding) -> None:
        """Record a violation of a rule that applies in every case, whether or not the case cites
        it."""
        self._keep(finding, beyond_citation=True)
        wire = self.example_record.wire
        wire.violations.append(
            Violation((finding.requirement,), finding.detail, None, len(wire.steps), self.now())
        )

    def _keep(self, finding: Finding, *, beyond_citation: bool = False) -> None:
        requirement, seen, detail = finding.requirement, finding.seen.value, finding.detail
        if requirement not in self.cited and not beyond_citation:
            raise ValueError(f"the case judges {requirement} but does not cite it; add it to @case")
        if requirement in self.unbound:
            return
        self.example_record.findings.append(finding)
        if finding.seen is Seen.HELD:
            if (requirement, detail) in self.example_record.held:
                return  # a model repeats the finding at every step, but readers need it only once
            self.example_record.held.add((requirement, detail))
        self.record(Judged(at_ns=self.now(), requirement=requirement, seen=seen, detail=detail))

    def require(
        self,
        requirements: Requirements,
        held: bool,
        detail: str,
        *,
        uncertain: str | None = None,
        expectation: Expectation | None = None,
    ) -> None:
        """Like :meth:`record_finding`, but a violation ends the case."""
        if not self.record_finding(
            requirements, held, detail, uncertain=uncertain, expectation=expectation
        ):
            raise Violated(detail)

    def control(self, held: bool, detail: str, *, optional: bool = False) -> None:
        """Raise :class:`ControlFailed` if a condition on which the case relies is false. The case
        is a SKIP if the condition is ``optional``: a broker need not meet it."""
        if not held:
            raise ControlFailed(detail, Symptom.ABSENT if optional else Symptom.REFUSED)


def _interval(low: Duration, high: Duration | None) -> str:
    """Describe the interval from ``low`` to ``high``, omitting trivial bounds."""
    if high is None:
        return f"at least {in_ms(low)} ms"
    if low <= 0:
        return f"at most {in_ms(high)} ms"
    return f"between {in_ms(low)} and {in_ms(high)} ms"


def _ids(requirements: Requirements) -> tuple[str, ...]:
    return (requirements,) if isinstance(requirements, str) else requirements


@dataclass(frozen=True, slots=True)
class _Gap:
    """A gap between two signs of a periodic sender, and its expected interval, widened by the
    host's lateness during the gap."""

    since: Instant
    length: Duration
    low: Duration
    high: Duration
    late: Duration

    @property
    def distance(self) -> Duration:
        """The distance to the nearest bound, negative outside. A lower bound of 0 is ignored."""
        to_high = self.high - self.length
        return min(self.length - self.low, to_high) if self.low else to_high


class MeasurementJudge(CaseRecord):
    """Judges measured durations and counts against intervals."""

    def expect_interval(
        self,
        requirements: Requirements,
        label: str,
        since: Instant,
        bounds: tuple[Duration, Duration | None],
    ) -> None:
        """Show on the report's time axis when something should happen, counted from ``since``."""
        low, high = bounds
        for requirement in _ids(requirements):
            self.record(
                IntervalExpected(
                    at_ns=self.now(),
                    label=label,
                    requirement=requirement,
                    lo_ns=since + low,
                    hi_ns=None if high is None else since + high,
                )
            )

    def punctuality(self, period: Duration) -> Duration:
        """Return the lateness allowed for a correct periodic sender. It is zero in virtual time,
        where timers are never late. In real time it is a tenth of the period, but at least 50 ms.
        STOMP11-HB-12 and STOMP12-HB-12 ask receivers for such a tolerance."""
        return 0 if self.virtual else max(self.world.of_host(ms(50)), period // 10)

    def sending_jitter(self, period: Duration) -> Duration:
        """Return the lateness allowed for a sender that is judged by its own period. No
        specification grants a tolerance, so it is zero in virtual time. In real time it is a
        fiftieth of the period, but at least 10 ms. The host's lateness is added
        (:meth:`judge_period`, :meth:`margin`)."""
        return 0 if self.virtual else max(self.world.of_host(ms(10)), period // 50)

    def margin(self, bounds: tuple[Duration, Duration | None], since: Instant) -> Duration:
        """Return how far an interval is widened: zero in virtual time; see :data:`MARGIN_FLOOR` for
        real time."""
        if self.virtual:
            return 0
        late = self.world.lateness(since)
        self.record(JitterMeasured(at_ns=self.now(), late_ns=late))
        return self._least_margin(bounds[1] or bounds[0]) + late

    def _least_margin(self, bound: Duration) -> Duration:
        """The margin if the host is never late."""
        return max(self.world.of_host(MARGIN_FLOOR), bound // MARGIN_SHARE)

    def judge_duration(
        self,
        requirements: Requirements,
        label: str,
        value: Duration,
        bounds: tuple[Duration, Duration | None],
        since: Instant,
    ) -> bool:
        """Judge a duration that began at ``since`` against both bounds of [lo, hi].

        Inside the interval: HELD. Outside it, but within the margin: an uncertain violation. Beyond
        the margin: a violation. If the host was so late that a much shorter duration would also
        have been measured inside the interval (:data:`LATENESS_SHARE`), nothing is judged."""
        low, high = bounds
        margin = self.margin(bounds, since)
        held = low <= value and (high is None or value <= high)
        beyond = value < low - margin or (high is not None and value > high + margin)
        detail = f"{label}: {in_ms(value)} ms; expected {_interval(low, high)}"
        self._measured(requirements, label, value, low, high, margin, "ns")
        if held and self._may_be_early(since, value, low):
            late = self.world.lateness(since)
            self._never_reached(requirements, detail, f"the host was late by {in_ms(late)} ms")
            return True
        uncertain = None if beyond else f"within the margin of {in_ms(margin)} ms"
        expectation = Expectation(
            kind="duration", words=label, since=since, value=value, bounds=bounds
        )
        return self.record_finding(
            requirements, held, detail, uncertain=uncertain, expectation=expectation
        )

    def _may_be_early(self, since: Instant, value: Duration, low: Duration) -> bool:
        """True if the event measured at ``value`` may have happened far below ``low``, because the
        host was late during the whole time between the two. Earlier lateness is ignored."""
        if self.virtual or low <= 0:
            return False
        early = max(self.world.of_host(MARGIN_FLOOR), low // LATENESS_SHARE)
        return self.world.lateness(since + low - early, since + value) > value - (low - early)

    def judge_period(
        self,
        requirements: Requirements,
        label: str,
        instants: Sequence[Instant],
        bounds: tuple[Duration, Duration],
        until: Instant | None = None,
    ) -> bool:
        """Judge the gaps between consecutive signs of a periodic sender against both bounds of [lo,
        hi]. With ``until``, also judge the silence from the last sign to the end of the
        observation.

        The interval for each gap is widened by :meth:`sending_jitter` and by the lateness measured
        during the gap, since the host may have caused that much of it. So HELD requires a gap
        measured on time (:data:`ON_TIME_SHARE`), or gaps that lie in the interval on average: a
        delay lengthens one gap and shortens the next. Otherwise nothing is judged. A gap that is
        outside by less than the floor of :meth:`margin` is uncertain."""
        gaps = self._gaps(instants, bounds)
        on_time = any(gap.late <= bounds[1] // ON_TIME_SHARE for gap in gaps)
        if gaps:
            jitter = self.sending_jitter(bounds[1])
            mean = sum(gap.length for gap in gaps) // len(gaps)
            on_time = on_time or bounds[0] - jitter <= mean <= bounds[1] + jitter
        if until is not None:
            gaps = self._gaps([*instants, max(until, instants[-1])], bounds)
        worst = min(gaps, key=lambda gap: gap.distance)
        self.record(JitterMeasured(at_ns=self.now(), late_ns=worst.late))
        margin = 0 if self.virtual else self._least_margin(bounds[1])
        self._measured(requirements, label, worst.length, worst.low, worst.high, margin, "ns")
        detail = (
            f"{label}: {in_ms(worst.length)} ms, {worst.length / bounds[1]:.2f} times the agreed"
            f" interval; expected {_interval(worst.low, worst.high)}"
        )
        if worst.distance >= 0 and not on_time:
            least = min((gap.late for gap in gaps), default=0)
            reason = f"the host was late by {in_ms(least)} ms or more in every gap"
            self._never_reached(requirements, detail, reason)
            return True
        if until is None:
            expectation = Expectation(
                kind="duration",
                words=label,
                since=worst.since,
                value=worst.length,
                bounds=(worst.low, worst.high),
            )
        else:
            expectation = self.signs_of_life(label, instants[0], bounds)
        uncertain = None if worst.distance < -margin else f"within the margin of {in_ms(margin)} ms"
        return self.record_finding(
            requirements, worst.distance >= 0, detail, uncertain=uncertain, expectation=expectation
        )

    def signs_of_life(
        self, label: str, since: Instant, bounds: tuple[Duration, Duration]
    ) -> Expectation:
        """Expect the gaps between a periodic sender's signs, from ``since`` (when bytes arrived)
        until now, to be within ``bounds``."""
        jitter = self.sending_jitter(bounds[1])
        return Expectation(
            kind="signs",
            words=label,
            since=since,
            bounds=(max(0, bounds[0] - jitter), bounds[1] + jitter),
        )

    def _gaps(self, instants: Sequence[Instant], bounds: tuple[Duration, Duration]) -> list[_Gap]:
        """Return the gaps between ``instants``. A late arrival lengthens the gap before it and
        shortens the gap after it."""
        gaps: list[_Gap] = []
        jitter = self.sending_jitter(bounds[1])
        late_before = 0
        for since, end in pairwise(instants):
            late = self.world.lateness(since, end)
            low = max(0, bounds[0] - jitter - late - late_before)
            gaps.append(_Gap(since, end - since, low, bounds[1] + jitter + late, late))
            late_before = late
        return gaps

    def judge_count(
        self,
        requirements: Requirements,
        label: str,
        value: int,
        bounds: tuple[int, int | None],
        unit: str,
    ) -> bool:
        """Judge a count against both bounds of [lo, hi]. Counts have no margin."""
        low, high = bounds
        self._measured(requirements, label, value, low, high, 0, unit)
        should = (
            f"{low}" if high == low else f"at least {low}" if high is None else f"{low} to {high}"
        )
        held = low <= value and (high is None or value <= high)
        counted = f"{value} {unit.removesuffix('s') if value == 1 else unit}"
        expectation = Expectation(
            kind="count", words=f"{label} ({unit})", value=value, bounds=bounds
        )
        return self.record_finding(
            requirements, held, f"{label}: {counted}; expected {should}", expectation=expectation
        )

    def _measured(
        self,
        requirements: Requirements,
        label: str,
        value: int,
        low: int,
        high: int | None,
        margin: int,
        unit: str,
    ) -> None:
        self.record(
            Measured(
                at_ns=self.now(),
                label=label,
                requirement=_ids(requirements)[0],
                value=value,
                lo=low,
                hi=high,
                margin=margin,
                unit=unit,
            )
        )
        self.example_record.measure(label, Measurement(value, unit, low, high, margin))
