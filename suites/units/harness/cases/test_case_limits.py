"""Cases in real time that end at a limit, or whose control fails."""

import re

import pytest

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.execution import execute
from brokerproof.harness.catalogue.deviations import Deviation
from brokerproof.harness.model.cost_limits import Limits
from brokerproof.harness.model.time import ms
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.targets import target_file
from brokerproof.harness.trace.events import FrameReceived, HeartBeatReceived
from brokerproof.harness.worlds.bounds import BEHIND_A_FRAME, CaseBounds, LimitReached, RunBounds
from brokerproof.harness.worlds.virtual import VirtualWorld
from brokerproof.suites.units.drivers.executed_case import MUST, RealTimeTwin, made, run_of


@pytest.mark.parametrize(
    ("limit", "seen"),
    [
        ("connection_frames", Seen.UNMET),
        ("case_bytes", Seen.UNMET),
        ("case_seconds", Seen.NEVER_REACHED),
        ("parallel_frames", Seen.NEVER_REACHED),
        ("parallel_bytes", Seen.NEVER_REACHED),
    ],
)
def test_a_limit_to_which_host_or_neighbours_contribute_is_no_unmet_precondition(
    limit: str, seen: Seen
) -> None:
    """``--inconclusive-ok`` excuses no limit that the target alone reached."""
    target = RealTimeTwin(target_file.load("reference"))

    def floods(bench: Bench) -> None:
        raise LimitReached(limit, "the target sent more than 5 frames")

    judged = execute(run_of(target), made(floods, MUST))
    assert (judged.verdict, judged.attempts) == (Verdict.INCONCLUSIVE, 1)
    assert [finding.seen for finding in judged.findings] == [seen]
    assert judged.detail.startswith("ended at a limit: the target sent more than 5 frames")
    words = f"ended at a limit: the target sent more than 5 frames (limit {limit})"
    known = Deviation(
        "units.*", "", "", re.escape(words), words, "floods", "https://here", "x", control=True
    )
    assert execute(run_of(target, deviations=(known,)), made(floods, MUST)).verdict is Verdict.KNOWN


@pytest.mark.parametrize(
    ("lateness", "seen", "detail"),
    [
        ((600, 700, 500), Seen.NEVER_REACHED, "the host was late by 500 ms: it raced"),
        ((6_000, 499, 6_000), Seen.UNMET, "precondition not met: it raced"),
    ],
)
def test_a_control_that_fails_while_the_host_is_late_is_no_unmet_precondition(
    lateness: tuple[int, ...], seen: Seen, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = RealTimeTwin(target_file.load("reference"))
    left = iter(lateness)
    monkeypatch.setattr(VirtualWorld, "lateness", lambda self, since: ms(next(left)))

    def fails(bench: Bench) -> None:
        bench.control(False, "it raced")

    result = execute(run_of(target), made(fails, MUST))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.detail.startswith(detail)
    assert [finding.seen for finding in result.findings] == [seen]


@pytest.mark.parametrize(
    ("heartbeats", "waits", "verdict"),
    [(5, True, Verdict.PASS), (6, False, Verdict.PASS), (6, True, Verdict.INCONCLUSIVE)],
)
def test_a_case_waits_for_no_connection_with_more_heartbeats_than_a_client_may_ask_for(
    heartbeats: int, waits: bool, verdict: Verdict
) -> None:
    target = RealTimeTwin(target_file.load("reference"))

    def beats(bench: Bench) -> None:
        bench.world.bounds = CaseBounds(RunBounds(Limits(connection_heartbeats=5)))
        for at in range(heartbeats):
            for conn in (1, 2):
                bench.record(
                    FrameReceived(at_ns=at, conn=conn, protocol="STOMP", command="MESSAGE")
                )
                for _ in range(1 + BEHIND_A_FRAME):
                    bench.record(HeartBeatReceived(at_ns=at, conn=conn, protocol="STOMP", size=1))
        bench.record_finding(MUST, True, "what was read is enough")
        if waits:
            bench.world.bounds.check(bench.now())

    result = execute(run_of(target), made(beats, MUST))
    assert result.verdict is verdict
    if verdict is Verdict.INCONCLUSIVE:
        words = "more than 5 heartbeats on connection 1 (limit connection_heartbeats)"
        assert result.detail == f"ended at a limit: the target sent {words}"
        assert [finding.seen for finding in result.findings] == [Seen.UNMET]


def test_a_case_may_go_on_without_the_connection_that_was_flooded() -> None:
    bounds = CaseBounds(RunBounds(Limits(connection_heartbeats=5)))
    for at in range(6):
        bounds.on_heartbeat_received(at, 1)
    with pytest.raises(LimitReached):
        bounds.check(6)
    bounds.check(7)
    bounds.on_heartbeat_received(8, 1)
    bounds.check(8)
