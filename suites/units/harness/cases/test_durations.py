"""A duration above its lower bound is evidence unless the host was late from far below the bound to
the instant at which it was measured."""

import pytest

from brokerproof.harness.cases.example_record import ExampleRecord
from brokerproof.harness.cases.findings import MeasurementJudge
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.time import Duration, Instant, ms
from brokerproof.harness.model.verdicts import Seen

LOW = ms(1200)  # a sixth of it is 200 ms


class HostThatWasLate:
    """A world in real time whose host was late by ``late`` until the instant ``until``."""

    clock = Clock.REAL

    def __init__(self, late: Duration, until: Instant) -> None:
        self._late, self._until = late, until

    def now(self) -> Instant:
        return 0

    def of_host(self, duration: Duration) -> Duration:
        return duration

    def lateness(self, since: Instant, until: Instant | None = None) -> Duration:
        return self._late if since <= self._until else 0


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
