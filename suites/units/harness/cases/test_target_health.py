"""A target that has stopped serving one protocol: the message, and the effect on verdicts."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from brokerproof.harness.cases import plain_message_probe, target_health
from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.execution import execute
from brokerproof.harness.cases.plain_message_probe import Fault, PlainMessageProbe, ProbeFailure
from brokerproof.harness.cases.target_health import RunWatch, TargetHealth
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import ms
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.records import LATE_HOST
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.process import ProcessTarget
from brokerproof.harness.targets.target import Identity, Target
from brokerproof.harness.trace.events import ConnectionClosed
from brokerproof.harness.worlds.bounds import LimitReached, RunBounds, RunStopped
from brokerproof.suites.units.drivers.executed_case import MUST, RealTimeTwin, made, run_of
from brokerproof.suites.units.drivers.targets import started


@pytest.fixture
def reference(tmp_path: Path) -> Iterator[Target]:
    with started("reference", tmp_path) as target:
        yield target


@pytest.fixture
def health(reference: Target) -> TargetHealth:
    return TargetHealth(reference, 7)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault.SILENT, "stopped answering AMQP 1.0 and still answers STOMP"),
        (Fault.FLOODS, "floods its clients over AMQP 1.0 and answers STOMP"),
    ],
)
def test_a_protocol_that_is_not_answered_any_more_is_named(
    fault: Fault, words: str, health: TargetHealth, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failure(probe: object, name: str, *, login_only: bool = False) -> ProbeFailure | None:
        if name == "stomp":
            return None
        return ProbeFailure(name, fault, "begin was not answered in 10 s")

    monkeypatch.setattr(PlainMessageProbe, "failure", failure)
    with pytest.raises(RunStopped) as stopped:
        health.examine("amqp10.sessions.a_case", f"got {'a frame; ' * 90}and no more")
    listed = "a frame; " * 21
    assert str(stopped.value) == (
        f"reference {words}: 3 of 3 plain messages failed, the last one over AMQP 1.0: begin was"
        f" not answered in 10 s; noticed in case amqp10.sessions.a_case: got {listed}a …"
    )


def test_a_target_that_answers_no_protocol_is_named_as_a_whole(
    health: TargetHealth, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = ProbeFailure("stomp", Fault.SILENT, "CONNECT was not answered in 10 s")
    monkeypatch.setattr(PlainMessageProbe, "failure", lambda probe, name, **options: silent)
    with pytest.raises(RunStopped, match=r"^reference is silent: 3 of 3 plain messages failed, "):
        health.examine("stomp.ack.a_case", "nothing arrived")


@pytest.mark.parametrize(("closed", "fault"), [(True, Fault.CLOSES), (False, Fault.SILENT)])
def test_a_target_that_ended_a_connection_is_not_silent(
    closed: bool, fault: Fault, reference: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waits(bench: Bench) -> None:
        if closed:
            bench.record(ConnectionClosed(at_ns=0, conn=2, how=CloseHow.EOF))
        raise LimitReached("case_seconds", "it took too long")

    monkeypatch.setattr(plain_message_probe, "_BY_CAPABILITY", {"stomp": waits})
    failure = PlainMessageProbe(reference, 7).failure("stomp")
    assert failure is not None
    assert failure.fault is fault


@pytest.mark.parametrize(("late_ms", "excused"), [(1_500, True), (50, False)])
def test_a_probe_that_a_late_host_failed_does_not_count(
    late_ms: int, excused: bool, reference: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def waits(bench: Bench) -> None:
        asked.append("again")
        monkeypatch.setattr(bench.world, "lateness", lambda since, until=None: ms(late_ms))
        if len(asked) <= 4:
            raise LimitReached("case_seconds", "it took too long")

    monkeypatch.setattr(plain_message_probe, "_BY_CAPABILITY", {"stomp": waits})
    monkeypatch.setattr(RunBounds, "pause", lambda bounds, duration: False)
    if excused:
        assert TargetHealth(reference, 7).serves
    else:
        with pytest.raises(RunStopped, match="is silent: 3 of 3 plain messages failed"):
            TargetHealth(reference, 7)


def test_a_host_that_is_always_late_does_not_hide_a_silent_target(
    reference: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = ProbeFailure("stomp", Fault.SILENT, "CONNECT was not answered", host_was_late=True)
    monkeypatch.setattr(PlainMessageProbe, "failure", lambda probe, name, **options: silent)
    monkeypatch.setattr(RunBounds, "pause", lambda bounds, duration: False)
    with pytest.raises(RunStopped, match="is silent: 3 of 3 plain messages failed"):
        TargetHealth(reference, 7)


class Shut(RealTimeTwin):
    shut = False

    @property
    def identity(self) -> Identity:
        identity = self._inner.identity
        return replace(identity, passcode="changed meanwhile") if self.shut else identity


def test_what_a_broker_does_that_serves_nobody_any_more_is_not_held_against_it(
    reference: Target,
) -> None:
    def shuts(target: Bench) -> None:
        target.record_finding(MUST, False, "broken")
        target.target.shut = True  # type: ignore[attr-defined]

    def bad(target: Bench) -> None:
        target.record_finding(MUST, False, "broken")

    broker = Shut(reference)
    run = replace(run_of(broker), health=TargetHealth(broker, 7))
    assert execute(run, made(bad, MUST)).verdict is Verdict.FAIL
    found = execute(run, made(shuts, MUST))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert (
        "a plain STOMP message, which passed when the run began, does not pass now: expected"
        " CONNECTED" in found.detail
    )
    broker.shut = False
    assert execute(run, made(bad, MUST)).verdict is Verdict.FAIL


def test_a_failure_that_cannot_happen_again_on_a_broker_that_is_gone_is_not_irreproducible(
    reference: Target,
) -> None:
    def ends_the_broker(target: Bench) -> None:
        target.control(not broker.shut, "the broker should let clients in")
        broker.shut = True
        target.record_finding(MUST, False, "the connection ended")

    broker = Shut(reference)
    run = replace(run_of(broker), health=TargetHealth(broker, 7))
    found = execute(run, made(ends_the_broker, MUST))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "which passed when the run began, does not pass now" in found.detail
    assert "irreproducible" not in found.detail


def test_a_case_without_a_verdict_says_how_late_the_host_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(target: Bench) -> None:
        seen.append(target.now())
        target.record_finding(MUST, len(seen) > 1, "broken")

    monkeypatch.chdir(tmp_path)
    target, seen = target_file.load("reference-real"), list[int]()
    assert isinstance(target, ProcessTarget)
    run = run_of(target)
    monkeypatch.setattr(target.canary, "worst", lambda since, _=0: LATE_HOST * (since <= seen[0]))
    found = execute(run, made(once, MUST))
    target.stop()
    assert "irreproducible" in found.detail
    assert found.left_open_by_host


def test_a_broker_that_never_served_anybody_is_judged_as_it_is(reference: Target) -> None:
    def bad(target: Bench) -> None:
        target.record_finding(MUST, False, "broken")

    broker = Shut(reference)
    broker.shut = True
    assert (
        execute(replace(run_of(broker), health=TargetHealth(broker, 7)), made(bad, MUST)).verdict
        is Verdict.FAIL
    )


@pytest.mark.parametrize("garbage", [True, False])
def test_memory_is_given_back_before_a_run_is_stopped_for_it(
    garbage: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = target_file.load("reference-real")
    assert isinstance(target, ProcessTarget)
    target.start(tmp_path)
    try:
        most = target.bounds.limits.run_memory_bytes
        given_back = threading.Event()

        def resident() -> int:
            return most if garbage and given_back.is_set() else most + 1

        monkeypatch.setattr(target_health, "resident_bytes", resident)
        monkeypatch.setattr(target_health, "give_back", given_back.set)
        RunWatch(target, TargetHealth(target, 7)).start()
        assert given_back.wait(10)
        target.bounds.pause(2 * target_health.LOOK_EVERY)
        if garbage:
            target.bounds.check()
        else:
            with pytest.raises(RunStopped, match=r"bytes of memory \(limit run_memory_bytes\)"):
                target.bounds.check()
    finally:
        target.bounds.stop("the test is over")
        target.stop()
