"""A periodic sender must keep its period in each gap, widened by the host's delay during that gap.
A duration above its lower bound is evidence unless the host was late from well before the bound
until the measurement."""

import itertools

import pytest

from brokerproof.harness.cases.example_record import ExampleRecord
from brokerproof.harness.cases.findings import MARGIN_FLOOR, MeasurementJudge
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.finding import Finding, combine
from brokerproof.harness.model.time import Duration, Instant, ms
from brokerproof.harness.model.verdicts import Seen

PERIOD = ms(500)
ON_TIME, LATE = 0, ms(60)
LOW = ms(1200)  # a sixth of it is 200 ms


class HostThatIsLate:
    """A world in real time in which each gap has its own lateness."""

    clock = Clock.REAL

    def __init__(self, late: list[Duration]) -> None:
        self._late = iter(late)

    def now(self) -> Instant:
        return 0

    def of_host(self, duration: Duration) -> Duration:
        return duration

    def lateness(self, since: Instant, until: Instant | None = None) -> Duration:
        return next(self._late)


class HostThatWasLate(HostThatIsLate):
    """A world in real time whose host was ``late`` until the instant ``until``."""

    def __init__(self, late: Duration, until: Instant) -> None:
        super().__init__([])
        self._by, self._until = late, until

    def lateness(self, since: Instant, until: Instant | None = None) -> Duration:
        return self._by if since <= self._until else 0


def judged(
    gaps_ms: list[float], late: list[Duration], low: Duration = 0, until_ms: float | None = None
) -> Finding:
    judge = MeasurementJudge()
    judge.world, judge.cited = HostThatIsLate(late), ("X-1",)  # type: ignore[assignment]
    judge.example_record = ExampleRecord()
    instants = [round(at * ms(1)) for at in itertools.accumulate(gaps_ms, initial=0)]
    until = None if until_ms is None else instants[-1] + round(until_ms * ms(1))
    judge.judge_period("X-1", "gap", instants, (low, PERIOD), until)
    (finding,) = judge.example_record.findings
    return finding


@pytest.mark.parametrize(
    ("gaps_ms", "late", "seen", "certain"),
    [
        pytest.param([500, 509], [0, 0], Seen.HELD, True, id="jitter"),
        pytest.param([500, 512], [0, ms(3)], Seen.HELD, True, id="the host was late by more"),
        pytest.param([500, 512], [ms(3), 0], Seen.VIOLATED, False, id="but in another gap"),
        pytest.param([500, 541], [0, 0], Seen.VIOLATED, True, id="beyond the floor"),
        pytest.param([550, 550], [0, LATE], Seen.VIOLATED, True, id="a tenth late shows on time"),
        pytest.param([550, 550], [LATE, LATE], Seen.NEVER_REACHED, False, id="never on time"),
        pytest.param([545, 460], [LATE, LATE], Seen.HELD, True, id="on time on average"),
        pytest.param([500, 900], [LATE, LATE], Seen.VIOLATED, True, id="too long at any rate"),
    ],
)
def test_a_gap_is_judged_by_the_lateness_in_it(
    gaps_ms: list[float], late: list[Duration], seen: Seen, certain: bool
) -> None:
    finding = judged(gaps_ms, late)
    assert (finding.seen, finding.uncertain is None) == (seen, certain)


def test_a_gap_may_be_too_short() -> None:
    assert judged([500, 491], [0, 0], low=PERIOD).seen is Seen.HELD
    assert judged([500, 450], [0, 0], low=PERIOD).seen is Seen.VIOLATED
    assert judged([540, 460], [ms(40), 0], low=PERIOD).seen is Seen.HELD, "what came late"


def test_silence_up_to_the_end_is_a_gap_that_proves_nothing_by_itself() -> None:
    assert judged([500], [ON_TIME, ON_TIME, ON_TIME], until_ms=1000).seen is Seen.VIOLATED
    assert judged([550], [LATE, LATE, ON_TIME], until_ms=100).seen is Seen.NEVER_REACHED
    assert judged([], [ON_TIME], until_ms=1000).seen is Seen.VIOLATED, "it never sent anything"
    outlived = judged([500, 450], [ON_TIME] * 5, low=ms(400), until_ms=-100)
    assert outlived.detail.startswith("gap: 0 ms,"), "a sign behind the end is no negative silence"
    longest = judged([10, 400, 10], [ON_TIME] * 3)
    assert longest.detail.startswith("gap: 400 ms,"), "without a lower bound the longest counts"


def test_an_example_on_a_late_host_leaves_the_verdict_to_the_others() -> None:
    late, fine = judged([550], [LATE]), judged([500], [ON_TIME])
    bad = judged([500 + MARGIN_FLOOR / ms(1) + 11], [ON_TIME])
    assert combine([late, fine]) == combine([fine, late]) == [fine]
    assert combine([late, fine, bad]) == [bad]
    assert combine([late]) == [late]
    assert late.uncertain == "the host was late by 60 ms or more in every gap"


def test_a_bound_that_bounds_nothing_is_not_named() -> None:
    found = judged([500, 541], [0, 0]).detail
    assert found == "gap: 541 ms, 1.08 times the agreed interval; expected at most 510 ms"
    got = judged([500, 450], [0, 0], low=PERIOD).detail
    assert got == "gap: 450 ms, 0.90 times the agreed interval; expected between 490 and 510 ms"


@pytest.mark.parametrize(
    ("value", "late", "until", "seen"),
    [
        pytest.param(1210, 300, 900, Seen.HELD, id="the host was late before"),
        pytest.param(1210, 300, 1100, Seen.NEVER_REACHED, id="late when it mattered"),
        pytest.param(1600, 300, 1100, Seen.HELD, id="further above than the host was late"),
        pytest.param(1210, 209, 1100, Seen.HELD, id="late by less than shows"),
        pytest.param(1000, 300, 900, Seen.VIOLATED, id="a violation is judged by all of it"),
    ],
)
def test_what_was_late_long_before_the_bound_explains_nothing(
    value: int, late: int, until: int, seen: Seen
) -> None:
    judge = MeasurementJudge()
    judge.world = HostThatWasLate(ms(late), ms(until))  # type: ignore[assignment]
    judge.cited, judge.example_record = ("X-1",), ExampleRecord()
    judge.judge_duration("X-1", "silence", ms(value), (LOW, None), 0)
    (finding,) = judge.example_record.findings
    assert finding.seen is seen
    assert (finding.uncertain is None) is (seen is Seen.HELD)
