"""The target as a case sees it: a world, peers, the verbs that hide the clock, and the place for
findings.

One bench serves one case (in a property: one example). What it records is the case's trace; what it
judges are the case's findings. Which verdict they make is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerproof.harness.cases.example_record import ExampleRecord
from brokerproof.harness.cases.peers import Peers
from brokerproof.harness.clients.activemq_statistics import Statistics
from brokerproof.harness.clients.artemis_management import Admin
from brokerproof.harness.model.broker_io import LimitsSet, ResourcesRead
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.finding import Finding, Measurement
from brokerproof.harness.model.time import Duration, Instant, ms
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles import liveness
from brokerproof.harness.protocols.byte_log import Expectation, Violation
from brokerproof.harness.protocols.conversation import ControlFailed, Requirements, Violated
from brokerproof.harness.targets.target import Overrides, Target
from brokerproof.harness.trace.events import (
    Advanced,
    Event,
    IntervalExpected,
    JitterMeasured,
    Judged,
    LinkFaulted,
    Measured,
    Noted,
    Observed,
)
from brokerproof.harness.worlds.link import LinkFaults
from brokerproof.harness.worlds.virtual import VirtualWorld

MARGIN_FLOOR: Duration = ms(30)
"""Real time: an interval is widened by at least this much on either side …"""
MARGIN_SHARE = 50
"""… or by one part in this many of its bound, whichever is more; the host's measured lateness is
added to either."""


class Bench(Peers):
    """``cited`` are the requirements of the case, for the version it runs in, in the order the case
    names them."""

    def __init__(
        self,
        target: Target,
        cited: tuple[str, ...],
        *,
        label: str,
        seed: int = 0,
        overrides: Overrides | None = None,
        example_record: ExampleRecord | None = None,
    ) -> None:
        self.target, self.cited, self.label, self.seed = target, cited, label, seed
        self.overrides = overrides
        self.example_record = ExampleRecord() if example_record is None else example_record
        self.world = target.world(seed, overrides, self._observed)
        self._began = self.world.now()
        self.example_record.wire.mark = f"{seed:x}"
        self.example_record.seed = seed
        self._connections = 0
        self._names = 0
        self._inconclusive: str | None = None

    # the verbs that hide the clock

    def advance(self, duration: Duration) -> None:
        """Let ``duration`` pass; everything that happens meanwhile happens."""
        self.record(Advanced(at_ns=self.now(), duration_ns=duration))
        self.world.wait_until(lambda: False, self.now() + duration)

    def wait_until(self, ready: Callable[[], bool], within: Duration) -> bool:
        """Let time pass until ``ready()``, at most ``within``; returns ``ready()``."""
        return self.world.wait_until(ready, self.now() + within)

    def raise_alarm(self, resource: str, *, node: str = "") -> None:
        """Make the broker short of ``resource`` (memory or disk). For targets that have "alarms".

        ``node`` is one node of a target that has "cluster"; the default is its first.
        """
        self.note(f"{_place(node)} is short of {resource}")
        self.target.starve(self.world, resource, True, node)

    def clear_alarm(self, resource: str, *, node: str = "") -> None:
        """End the shortage of ``resource`` that :meth:`raise_alarm` caused."""
        self.note(f"{_place(node)} is no more short of {resource}")
        self.target.starve(self.world, resource, False, node)

    def set_limits(
        self,
        *,
        memory: float | int | None = None,
        disk: float | int | None = None,
        paging: float | None = None,
    ) -> None:
        """Set the limits at which memory and disk space are short, while the broker runs: a
        fraction of the machine's memory (float) or octets (int). ``paging`` is the part of the way
        to the limit of memory from which on queues write out what they hold; for targets that have
        "memory-paging". For targets that have "alarms"."""
        self.note(f"the limits are set: memory {memory}, disk {disk}, paging {paging}")
        self.target.set_limits(self.world, LimitsSet(memory, disk, paging))

    def readings(self, reading: ResourcesRead) -> None:
        """Tell the broker what its machine has. For virtual targets, which have "readings"."""
        self.note(f"the machine: {reading}")
        assert isinstance(self.world, VirtualWorld)
        self.world.feed(reading)

    def admin(self) -> Admin:
        """What the broker says of its addresses, over a connection of its own. For targets with the
        capability "admin"."""
        address = str(self.profile.parameters["management_address"])
        return Admin(self, self.stomp(), address, self.destination())

    def statistics(self) -> Statistics:
        """The same of an ActiveMQ. For targets with the capability "statistics"."""
        nodes = {
            routing: str(self.profile.parameters[f"{routing.value.lower()}_node"])
            for routing in RoutingType
        }
        return Statistics(self, self.amqp(), self.node(), nodes)

    # virtual links

    def disturb(self, faults: LinkFaults) -> None:
        """Give the links opened from now on this temper. Real links have their own: there it
        changes nothing."""
        if isinstance(self.world, VirtualWorld):
            self.world.faults = faults
            self.record(LinkFaulted(at_ns=self.now(), detail=str(faults)))

    # the trace and the findings

    @property
    def events(self) -> list[Event]:
        """The trace so far."""
        return self.example_record.events

    def record(self, event: Event) -> None:
        """Adds an event to the case's trace."""
        self.example_record.events.append(event)

    def note(self, detail: str) -> None:
        """A step, in words, for the reader of the report."""
        self.record(Noted(at_ns=self.now(), detail=detail))

    def _observed(self, event: Observed) -> None:
        self.record(event)

    def mark_inconclusive(self, reason: str) -> None:
        """Record every later violation as uncertain: a connection closed in a way that may have
        lost the proof of the contrary.

        This is the one place for the rule: all expectations of all protocols pass through
        :meth:`record_finding`.
        """
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
        """Notes what was seen of ``requirements``; returns ``held``. The case goes on either way.

        ``uncertain`` says why a violation cannot be held against the broker. Raises ``ValueError``
        for a requirement that the case does not cite.
        """
        seen = Seen.HELD if held else Seen.VIOLATED
        for requirement in (requirements,) if isinstance(requirements, str) else requirements:
            if requirement not in self.cited:
                raise ValueError(
                    f"the case judges {requirement} but does not cite it; add it to @case"
                )
            why = None if held else uncertain or self._inconclusive
            self.example_record.findings.append(Finding(requirement, seen, detail, uncertain=why))
            self.record(
                Judged(at_ns=self.now(), requirement=requirement, seen=seen.value, detail=detail)
            )
        if not held:
            named = (requirements,) if isinstance(requirements, str) else requirements
            wire = self.example_record.wire
            wire.violations.append(
                Violation(named, detail, expectation, len(wire.steps), self.now())
            )
        return held

    def require(self, requirements: Requirements, held: bool, detail: str) -> None:
        """Like :meth:`record_finding`, but a violation ends the case."""
        if not self.record_finding(requirements, held, detail):
            raise Violated(detail)

    def control(self, held: bool, detail: str) -> None:
        """Something the case relies on. Raises :class:`ControlFailed` when it does not hold."""
        if not held:
            raise ControlFailed(detail)

    def expect_interval(
        self,
        requirements: Requirements,
        label: str,
        since: Instant,
        bounds: tuple[Duration, Duration | None],
    ) -> None:
        """Draws on the time axis when something should happen, counted from ``since``."""
        low, high = bounds
        for requirement in (requirements,) if isinstance(requirements, str) else requirements:
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
        """What a correct periodic sender may be late by: timers fire late on real hosts, never in
        virtual time.

        A tenth of the period, at least 50 ms (STOMP11-HB-12, STOMP12-HB-12 ask receivers to allow
        for as much).
        """
        return 0 if self.virtual else max(ms(50), period // 10)

    def margin(self, bounds: tuple[Duration, Duration | None], since: Instant) -> Duration:
        """By how much an interval is widened: nothing in virtual time; see :data:`MARGIN_FLOOR` in
        real time."""
        if self.virtual:
            return 0
        late = self.world.lateness(since)
        self.record(JitterMeasured(at_ns=self.now(), late_ns=late))
        return max(MARGIN_FLOOR, (bounds[1] or bounds[0]) // MARGIN_SHARE) + late

    def judge_duration(
        self,
        requirements: Requirements,
        label: str,
        value: Duration,
        bounds: tuple[Duration, Duration | None],
        since: Instant,
    ) -> bool:
        """Judges a duration that began at ``since`` against [lo, hi], both sides.

        Inside: HELD. Outside, but within the margin: a violation that is uncertain. Beyond: a
        violation.
        """
        low, high = bounds
        margin = self.margin(bounds, since)
        held = low <= value and (high is None or value <= high)
        beyond = value < low - margin or (high is not None and value > high + margin)
        upper = "" if high is None else f" and {high / ms(1):g} ms"
        detail = (
            f"{label}: {value / ms(1):g} ms, should be between"
            f" {low / ms(1):g}{upper or ' ms and any time'}"
        )
        self._measured(requirements, label, value, low, high, margin, "ns")
        uncertain = None if beyond else f"within the margin of {margin / ms(1):g} ms"
        expectation = Expectation(
            kind="duration", words=label, since=since, value=value, bounds=bounds
        )
        return self.record_finding(
            requirements, held, detail, uncertain=uncertain, expectation=expectation
        )

    def judge_count(
        self,
        requirements: Requirements,
        label: str,
        value: int,
        bounds: tuple[int, int | None],
        unit: str,
    ) -> bool:
        """Judges a count against [lo, hi]; counts have no margin."""
        low, high = bounds
        self._measured(requirements, label, value, low, high, 0, unit)
        should = (
            f"{low}" if high == low else f"at least {low}" if high is None else f"{low} to {high}"
        )
        held = low <= value and (high is None or value <= high)
        expectation = Expectation(
            kind="count", words=f"{label} ({unit})", value=value, bounds=bounds
        )
        return self.record_finding(
            requirements,
            held,
            f"{label}: {value} {unit}, should be {should}",
            expectation=expectation,
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
        first = requirements if isinstance(requirements, str) else requirements[0]
        self.record(
            Measured(
                at_ns=self.now(),
                label=label,
                requirement=first,
                value=value,
                lo=low,
                hi=high,
                margin=margin,
                unit=unit,
            )
        )
        self.example_record.measure(label, Measurement(value, unit, low, high, margin))

    # arithmetic of the target's own parameters

    def negotiated(
        self, heart_beat: tuple[int, int] | None, version: str = "1.2", acceptor: str | None = None
    ) -> liveness.Negotiated:
        """What the arithmetic says that this target should answer to a heart-beat header."""
        return liveness.negotiate(self.parameters(acceptor), heart_beat, version)

    def silence_interval(
        self, ttl_ms: int, acceptor: str | None = None
    ) -> tuple[Duration, Duration]:
        """After how much silence this target should close a connection with that TTL."""
        check = self.parameters(acceptor)["connection_ttl_check_interval_ms"]
        assert isinstance(check, int)
        return liveness.silence_interval(ttl_ms, check, exact=self.virtual)

    def close(self) -> None:
        """Ends every connection of this bench."""
        self.world.close()


def _place(node: str) -> str:
    return f"node {node}" if node else "the broker"
