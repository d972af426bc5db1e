"""Real-time cases in threads of several processes: the results are the same as in one process, and
none is lost. If one process finds the broker unusable, all stop."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import Over
from brokerproof.harness.cases.example_runs import Call, Run
from brokerproof.harness.cases.execution import EarlierAttempts, execute
from brokerproof.harness.cases.target_health import TargetHealth
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.model.time import seconds
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records
from brokerproof.harness.results.records import Result
from brokerproof.harness.session import real_time_workers
from brokerproof.harness.session.real_time_workers import (
    IDLE_SHARE,
    MOST_PLACES,
    QUIET_SHARE,
    RealTimeWorkers,
    processes_for,
)
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.process import ProcessTarget
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.harness.worlds.bounds import RunStopped
from brokerproof.suites.units.harness.session.test_forked_workers import (
    MUST,
    call,
    crash,
    property_of,
    single,
    the_same,
    traced,
)

NAME = "reference-real"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    target = target_file.load(NAME)
    facts = target.start(tmp_path / "logs")
    recorder = Recorder(None, run="run", target=NAME, clock=target.clock)
    health = TargetHealth(target, 7)
    yield Run(
        target, facts, requirements.load(), (), recorder, effort="smoke", seed=7, health=health
    )
    target.stop()


class Cores:
    def __init__(self, idle: float) -> None:
        self._idle = idle

    def share(self) -> float:
        return self._idle


def workers_for(
    run: Run, calls: Sequence[Call], kept: Path, at_once: int = 4, idle: float | None = None
) -> RealTimeWorkers:
    """Return two processes for ``calls`` that record into ``kept``. If ``idle``, the idle share of
    the processor, is given, they may run more than ``at_once`` cases together."""
    target = run.target
    assert isinstance(target, ProcessTarget)

    def in_fork(name: str) -> Run:
        target.continue_in_fork(target.identity.limits.share_of(2))
        assert run.health is not None
        recorder = Recorder(kept, "run", NAME, target.clock, name)
        return replace(run, recorder=recorder, health=run.health.in_fork(name))

    def keep(result: Any) -> None:
        records.append(kept, result)

    cores = Cores(idle or 0.0)
    more = idle is not None
    return RealTimeWorkers(
        calls,
        2,
        at_once,
        in_fork,
        target,
        keep,
        more=more,
        idle_cores=cores,  # type: ignore[arg-type]
    )


def waits(target: Bench) -> None:
    """Expect silence for as long as a run may last."""
    target.stomp().expect_nothing(for_=seconds(60))


def logged(log: Path) -> Callable[[Bench], None]:
    def waits_a_second(target: Bench) -> None:
        with log.open("a") as out:
            out.write("+1\n")
        target.advance(seconds(1))
        with log.open("a") as out:
            out.write("-1\n")

    return waits_a_second


def most_together(log: Path) -> int:
    return max(accumulate(int(line) for line in log.read_text().split()))


def kills_the_broker(target: Bench) -> None:
    """End the broker's process while other cases run on it."""
    single(target)
    broker = target.target
    assert isinstance(broker, ProcessTarget)
    assert broker._process is not None
    os.kill(broker._process.pid, signal.SIGKILL)
    single(target)


def tells_its_process(target: Bench) -> None:
    target.stomp()
    target.record_finding(MUST, True, f"process {os.getpid()}, alive: {not end(target)}")


def end(target: Bench) -> str:
    assert isinstance(target.target, ProcessTarget)
    return target.target.process_end()


@pytest.mark.parametrize(
    ("cores", "cases", "at_once", "processes"),
    [
        (1, 1000, 16, 1),
        (2, 1000, 16, 2),
        (2, 1000, 1, 1),
        (2, 63, 16, 1),
        (2, 64, 16, 2),
        (64, 1000, 16, 2),
        (64, 1000, 7, 1),
        (64, 0, 16, 1),
        (2, 1000, None, 2),
        (1, 1000, None, 1),
    ],
)
def test_there_is_a_process_for_each_core_that_has_enough_to_do(
    monkeypatch: pytest.MonkeyPatch, cores: int, cases: int, at_once: int | None, processes: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    assert processes_for(cases, at_once) == processes


def test_two_processes_judge_as_one_does(run: Run, tmp_path: Path) -> None:
    over = Over({"size": st.integers(0, 45)}, 40)
    calls = [call(f"units.{number}", property_of, over) for number in range(6)]
    calls += [call(f"units.single-{number}", single) for number in range(20)]
    workers = workers_for(run, calls, tmp_path)
    found = [the_same(workers.result(call)) for call in calls]
    workers.finish()
    assert workers.ended
    assert [result.case for result in found] == [call.id for call in calls]
    assert {result.verdict for result in found} == {Verdict.PASS, Verdict.FAIL}
    alone = [execute(run, call) for call in calls]
    assert [result.verdict for result in alone] == [result.verdict for result in found]
    assert sorted(result.case for result in records.read(tmp_path)) == sorted(
        call.id for call in calls
    )
    assert sorted(traced(tmp_path, NAME)) == sorted(call.id for call in calls)
    segments = {path.name for path in (tmp_path / "trace" / f"target={NAME}").iterdir()}
    assert segments == {"part-w0-00000.parquet", "part-w1-00000.parquet"}
    assert len(workers.lateness) == 2
    assert all(0 <= measured.p99 <= measured.worst for measured in workers.lateness)


def test_a_worker_takes_no_broker_for_dead_that_another_process_started(
    run: Run, tmp_path: Path
) -> None:
    calls = [call(f"units.{number}", tells_its_process) for number in range(64)]
    workers = workers_for(run, calls, tmp_path)
    said = {finding.detail for call in calls for finding in workers.result(call).findings}
    workers.finish()
    assert len(said) == 2, "both had cases"
    assert f"process {os.getpid()}, alive: True" not in said
    assert all(sentence.endswith("alive: True") for sentence in said)


def test_a_worker_that_dies_takes_the_cases_with_it_that_were_under_way(
    run: Run, tmp_path: Path
) -> None:
    calls = [call("units.killed", crash)] + [
        call(f"units.{number}", single) for number in range(30)
    ]
    workers = workers_for(run, calls, tmp_path)
    found = [workers.result(call) for call in calls]
    workers.finish()
    bad = [result for result in found if result.verdict is not Verdict.PASS]
    assert bad[0].case == "units.killed"
    assert 1 <= len(bad) <= 2, "two at once in each of two processes"
    assert all("ended by SIGKILL" in result.detail for result in bad)
    assert sorted(result.case for result in records.read(tmp_path)) == sorted(
        call.id for call in calls
    )


def test_the_first_that_finds_the_broker_gone_ends_the_run(run: Run, tmp_path: Path) -> None:
    calls = [call("units.waits", waits), call("units.kills", kills_the_broker)]
    calls += [call(f"units.waits-{number}", waits) for number in range(9)]
    workers = workers_for(run, calls, tmp_path)
    with pytest.raises(RunStopped, match=r"reference-real .*; its process ended with SIGKILL"):
        workers.finish()
    workers.stop()
    assert list(records.read(tmp_path)) == [], "a case that was cut off has no result"
    assert not (tmp_path / "trace").exists()


def test_a_run_that_is_stopped_keeps_a_trace_for_each_result_and_no_other(
    run: Run, tmp_path: Path
) -> None:
    calls = [call("units.single", single)] + [
        call(f"units.waits-{number}", waits) for number in range(9)
    ]
    workers = workers_for(run, calls, tmp_path)
    assert workers.result(calls[0]).verdict is Verdict.PASS
    workers.stop(within_s=real_time_workers._CASES_END_WITHIN_S + 10)
    assert [result.case for result in records.read(tmp_path)] == ["units.single"]
    assert traced(tmp_path, NAME) == ["units.single"]
    assert workers.lateness == []


@pytest.mark.parametrize(
    ("idle", "together"),
    [(None, 4), (IDLE_SHARE / 2, 4), (IDLE_SHARE, 4 * MOST_PLACES)],
    ids=["fixed", "busy", "idle"],
)
def test_more_cases_begin_while_the_processor_is_idle(
    idle: float | None, together: int, run: Run, tmp_path: Path
) -> None:
    waits_a_second = logged(tmp_path / "log")
    calls = [call(f"units.{number}", waits_a_second) for number in range(4 * MOST_PLACES)]
    workers_for(run, calls, tmp_path, idle=idle).finish()
    assert most_together(tmp_path / "log") == together


def test_while_a_busy_case_waits_for_a_place_others_begin(run: Run, tmp_path: Path) -> None:
    waits_a_second = logged(tmp_path / "log")
    calls = [call(f"units.{number}", waits_a_second) for number in range(9)]
    fills_addresses = replace(calls[4].case, needs=frozenset({"address-full"}))
    calls[4] = replace(calls[4], case=fills_addresses)
    workers_for(run, calls, tmp_path, idle=IDLE_SHARE).finish()
    assert most_together(tmp_path / "log") == 8


@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
def test_a_case_that_was_left_open_runs_again_later_unless_it_is_long(
    long: bool, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = tmp_path / "tried"

    def is_open_at_first(target: Bench) -> None:
        again = tried.exists()
        tried.touch()
        target.control(again, "the first attempt's control fails")
        single(target)

    places: list[tuple[int, int]] = []
    on_outcome = RealTimeWorkers._on_outcome

    def observed(workers: RealTimeWorkers, number: int, outcome: Result | EarlierAttempts) -> None:
        left = len(workers._left)
        on_outcome(workers, number, outcome)
        if isinstance(outcome, EarlierAttempts):
            places.append((workers._left.index(number), left))

    monkeypatch.setattr(RealTimeWorkers, "_on_outcome", observed)
    monkeypatch.setattr(real_time_workers, "durations", lambda: {"units.open": 5} if long else {})
    calls = [call("units.open", is_open_at_first)]
    calls += [call(f"units.{number}", single) for number in range(200)]
    workers = workers_for(run, calls, tmp_path)
    result = workers.result(calls[0])
    workers.finish()
    assert (result.verdict, result.attempts) == (Verdict.PASS, 2)
    assert [kept.case for kept in records.read(tmp_path)].count("units.open") == 1
    ((place, left),) = places
    assert left > 0, "it was run again when everything else was done"
    assert place == (0 if long else (left + 1) // 2)


@pytest.mark.parametrize(
    ("idle", "order"),
    [
        (None, ["open", "open", "ended", "ended", "ended", "open"]),
        (QUIET_SHARE / 2, ["open", "open", "ended", "ended", "ended", "open"]),
        (QUIET_SHARE, ["open", "open", "open", "ended", "ended", "ended"]),
    ],
    ids=["not looked at", "busy", "quiet"],
)
def test_the_last_attempt_at_a_case_waits_for_a_quiet_host(
    idle: float | None, order: list[str], run: Run, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def noted(word: str) -> None:
        with log.open("a") as out:
            out.write(f"{word}\n")

    def is_open_twice(target: Bench) -> None:
        noted("open")
        target.control(log.read_text().count("open") == 3, "two attempts fail")
        single(target)

    def lasts(target: Bench) -> None:
        target.advance(seconds(3))
        noted("ended")

    calls = [call("units.open", is_open_twice)]
    calls += [call(f"units.{number}", lasts) for number in range(3)]
    workers = workers_for(run, calls, tmp_path, idle=idle)
    result = workers.result(calls[0])
    workers.finish()
    assert workers.idle
    assert (result.verdict, result.attempts) == (Verdict.PASS, 3)
    assert log.read_text().split() == order


def test_the_last_attempt_does_not_need_the_workers_of_the_others(run: Run, tmp_path: Path) -> None:
    attempts = tmp_path / "attempts"
    attempts.mkdir()

    def is_open_twice(target: Bench) -> None:
        number = len(list(attempts.iterdir()))
        (attempts / str(number)).touch()
        target.control(number == 2, "two attempts fail")
        single(target)

    def crashes_later(target: Bench) -> None:
        target.advance(seconds(3))
        crash(target)

    calls = [call("units.open", is_open_twice)]
    calls += [call(f"units.{number}", crashes_later) for number in range(3)]
    workers = workers_for(run, calls, tmp_path)
    result = workers.result(calls[0])
    workers.finish()
    assert (result.verdict, result.attempts) == (Verdict.PASS, 3)
    assert sorted(kept.case for kept in records.read(tmp_path)) == sorted(call.id for call in calls)


def test_plain_messages_of_two_processes_go_to_addresses_of_their_own(run: Run) -> None:
    assert run.health is not None
    probes = [run.health._probe, *(run.health.in_fork(name)._probe for name in ("w0", "w1"))]
    assert len({probe._process for probe in probes}) == 3


def test_a_copy_of_a_target_measures_and_limits_by_itself(run: Run) -> None:
    target = run.target
    assert isinstance(target, ProcessTarget)
    canary, bounds = target.canary, target.bounds
    target.continue_in_fork(target.identity.limits.share_of(2))
    try:
        assert target.canary is not canary
        assert target.canary.running
        assert target.bounds.limits.run_memory_bytes * 2 == bounds.limits.run_memory_bytes
        bounds.stop("the other one")
        target.bounds.check()
    finally:
        canary.stop()
    assert "brokerproof-canary" in {thread.name for thread in threading.enumerate()}
