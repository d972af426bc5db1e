"""If a target misbehaves, the run ends with one sentence and exit code 3; a broker that misbehaves
in single cases gets all its verdicts."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from brokerproof.harness.cases.target_health import TargetHealth
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.external import dialogue
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.worlds.bounds import RunStopped
from brokerproof.suites.units.drivers.misbehaving import (
    SERVERS,
    ClosingAt,
    ClosingAtRandom,
    FloodingAt,
    FloodingFrom,
    Relay,
    listening,
)

COMMAND = (sys.executable, "-m", "brokerproof.harness.commands.cli")
NEVER_S = 120
UNDESERVED = frozenset({Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE})
"""Verdicts that a broker which keeps its promises must not get from an early end. A recommendation
that the reference broker does not follow is a WARN."""
"""No run below should take this long. If one does, its target hangs the harness."""


@contextmanager
def broker(protocol: str = "stomp") -> Iterator[tuple[subprocess.Popen[str], int]]:
    with subprocess.Popen(
        [*COMMAND, "broker", "--any-port"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["acceptors"][protocol]
        finally:
            process.kill()


def url(port: int) -> str:
    return f"stomp://127.0.0.1:{port}?profile=artemis"


def run_command(target: str, out: Path, *arguments: str) -> list[str]:
    return [
        *COMMAND,
        *("run", "--target", target, "--suite", "stomp", "--effort", "smoke", "--seed", "1"),
        *("--limit", "probe_seconds=3", "--no-report", "--out", str(out)),
        *arguments,
    ]


def judged(target: str, out: Path, *arguments: str) -> tuple[int, str, list[Result]]:
    done = subprocess.run(
        run_command(target, out, *arguments),
        capture_output=True,
        text=True,
        timeout=NEVER_S,
        check=False,
    )
    return done.returncode, done.stderr.strip().splitlines()[-1], list(records.read(out))


def begun(target: str, folder: Path) -> str:
    loaded = target_file.load(target, {"probe_seconds": 1})
    try:
        loaded.start(folder)
        TargetHealth(loaded, 1)
    except (SetUpFailed, RunStopped) as problem:
        return str(problem)
    finally:
        loaded.stop()
    pytest.fail("nothing was noticed")


@pytest.mark.parametrize(
    ("behaviour", "sentence"),
    [
        ("silent", "did not answer CONNECT within 3 s"),
        ("never_reading", "did not answer CONNECT within 3 s"),
        ("half_open", "closed the connection without an answer to CONNECT"),
        ("one_byte_per_second", "bytes without a complete answer to CONNECT"),
        ("floods_before_login", "bytes without a complete answer to CONNECT"),
        ("spinning", "does not speak STOMP"),
        ("silent_after_login", "is silent: 3 of 3 plain messages failed, the last one over STOMP:"),
        ("floods_after_login", "the target sent more than 1,000 frames on connection 1"),
        ("stalls_in_a_flood", "was not answered in 1 s, in which 501 frames arrived"),
        ("floods_with_one_frame", "the target sent more than 1,048,576 bytes on one connection"),
    ],
)
def test_a_target_that_misbehaves_from_the_beginning(
    behaviour: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogue, "PROBE_TIMEOUT_S", 3.0)
    with listening(SERVERS[behaviour]) as port:
        problem = begun(url(port), tmp_path)
    assert f"127.0.0.1:{port} " in problem
    assert sentence in problem


@pytest.mark.parametrize(
    ("behaviour", "sentence"),
    [
        ("silent_after_login", "is silent: 3 of 3 plain messages failed, the last one over STOMP:"),
        ("floods_after_login", "floods its clients: 3 of 3 plain messages failed"),
        ("floods_before_login", "bytes without a complete answer to CONNECT"),
        ("floods_with_messages", "answered CONNECT with MESSAGE"),
        ("spinning", "does not speak STOMP"),
        ("half_open", "closed the connection without an answer to CONNECT"),
    ],
)
def test_the_command_ends_with_3_for_a_target_that_serves_nobody(
    behaviour: str, sentence: str, tmp_path: Path
) -> None:
    with listening(SERVERS[behaviour]) as port:
        code, line, results = judged(url(port), tmp_path / "run")
    assert code == 3, line
    assert f"127.0.0.1:{port} " in line
    assert sentence in line
    assert not results


@pytest.mark.parametrize(
    ("behaviour", "fault"),
    [("silent", "does not answer AMQP 1.0"), ("floods_amqp", "floods its clients over AMQP 1.0")],
)
def test_an_amqp_acceptor_that_misbehaves(behaviour: str, fault: str, tmp_path: Path) -> None:
    target = tmp_path / "two.target.toml"
    with broker() as (_, stomp), listening(SERVERS[behaviour]) as amqp:
        target.write_text(
            'kind = "address"\nprofile = "artemis"\n'
            f'endpoints = {{ stomp = "127.0.0.1:{stomp}", amqp = "127.0.0.1:{amqp}" }}\n'
        )
        problem = begun(str(target), tmp_path)
    failed = "3 of 3 plain messages failed, the last one over AMQP 1.0"
    assert f"two {fault} and answers STOMP: {failed}" in problem


@pytest.mark.parametrize(
    ("deed", "fault"), [(signal.SIGKILL, "is gone"), (signal.SIGSTOP, "is silent")]
)
def test_a_broker_that_dies_or_stops_while_it_is_judged(
    deed: signal.Signals, fault: str, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with (
        broker() as (process, port),
        subprocess.Popen(run_command(url(port), out), stderr=subprocess.PIPE, text=True) as run,
    ):
        tail, results = records.Tail(out), 0
        while results < 5:
            with pytest.raises(subprocess.TimeoutExpired):
                run.wait(0.1)
            results += len(tail.new())
        process.send_signal(deed)
        _, err = run.communicate(timeout=NEVER_S)
    line = err.strip().splitlines()[-1]
    assert run.returncode == 3, line
    assert f"127.0.0.1:{port} {fault}" in line
    assert "noticed in case stomp." in line
    assert "nothing was received after" in line
    assert f"brokerproof run --resume --out {out} continues it" in line
    assert not {result.verdict for result in records.read(out)} & UNDESERVED


MORTAL = (sys.executable, "-m", "brokerproof.suites.units.drivers.misbehaving", "DyingAt")


@pytest.mark.parametrize(
    ("protocol", "case", "others", "restarts"),
    [
        ("stomp", "an_acknowledged_message_is_consumed", "every_kind_of_frame", True),
        ("amqp", "a_sender_may_settle_first", "an_outcome_may_be_told_first", True),
        ("stomp", "an_acknowledged_message_is_consumed", "every_kind_of_frame", False),
    ],
)
def test_a_broker_that_dies_of_one_case(
    protocol: str, case: str, others: str, restarts: bool, tmp_path: Path
) -> None:
    with listening(SERVERS["silent"]) as front:
        pass  # a port that is free from now on
    with broker(protocol) as (_, port):
        # The case's frames kill the broker; its queues have the case's name.
        words = shlex.join([*MORTAL, str(front), str(port), case.encode().hex()])
        again = f"echo $$ >> {tmp_path}/pids; exec {words}"
        with subprocess.Popen(again, shell=True, stdout=subprocess.PIPE) as first:
            assert first.stdout is not None
            first.stdout.readline()
            code, line, results = judged(
                f"{protocol}://127.0.0.1:{front}?like=none",
                tmp_path / "run",
                *("--suite", "amqp10", "--case", f"{case} or {others}"),
                *(["--restart", again] if restarts else []),
            )
            for pid in map(int, (tmp_path / "pids").read_text().split()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    dead = {result.case: result for result in results if "the broker died" in result.detail}
    others_said = {result.verdict for result in results if result.case not in dead}
    assert not others_said & UNDESERVED
    assert code == (1 if restarts else 3), line
    if restarts:
        cases = json.loads((tmp_path / "run" / "cases.json").read_text("utf-8"))
        assert {result.case for result in results} == set(cases)
        assert dead
    else:
        assert (
            f"running cases, the latest frame first: {'amqp10' if protocol == 'amqp' else protocol}"
            in line
        )
        assert not dead
    for result in dead.values():
        assert case in result.case
        assert result.verdict is Verdict.FAIL
        assert "beside other cases and twice alone" in result.detail


@pytest.mark.parametrize(
    ("relay", "fault"), [(ClosingAtRandom, "is unstable: "), (FloodingFrom, "floods its clients")]
)
def test_a_broker_that_becomes_unusable_while_it_is_judged(
    relay: type[Relay], fault: str, tmp_path: Path
) -> None:
    # On a busy host a probe needs more time, and reads more of a flood before it ends.
    patient = ("--limit", "probe_seconds=10", "--limit", f"run_memory_bytes={3 << 30}")
    with broker() as (_, port), listening(relay(port)) as front:
        code, line, results = judged(url(front), tmp_path / "run", *patient)
    assert code == 3, line
    assert f"127.0.0.1:{front} {fault}" in line
    assert not [result for result in results if result.verdict is Verdict.FAIL]


@pytest.mark.parametrize(
    ("limit", "sentence"),
    [
        ("run_seconds=5", "was not judged within 5 s (limit run_seconds)"),
        ("run_memory_bytes=1", "bytes of memory (limit run_memory_bytes)"),
    ],
)
def test_a_run_ends_at_its_limit(limit: str, sentence: str, tmp_path: Path) -> None:
    with broker() as (_, port):
        code, line, results = judged(url(port), tmp_path / "run", "--limit", limit)
    assert code == 3, line
    assert sentence in line
    assert not {result.verdict for result in results} & UNDESERVED


@pytest.mark.parametrize("relay", [ClosingAt, FloodingAt])
def test_a_broker_that_misbehaves_at_one_stimulus_gets_all_its_verdicts(
    relay: type[Relay], tmp_path: Path
) -> None:
    with broker() as (_, port), listening(relay(port)) as front:
        code, line, results = judged(url(front), tmp_path / "run", "--case", "nack")
    assert code in (1, 2), line
    cases = json.loads((tmp_path / "run" / "cases.json").read_text("utf-8"))
    assert {result.case for result in results} == set(cases)
    assert {result.verdict for result in results} & {Verdict.FAIL, Verdict.INCONCLUSIVE}


def test_a_run_that_was_killed_after_its_last_case_can_be_completed(tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ("run", "--target", "reference", "--suite", "stomp", "--case", "receipts and any")
    options = ("--seed", "1", "--no-report", "--out", str(out))
    whole = subprocess.run([*COMMAND, *arguments, *options], check=False, timeout=NEVER_S)
    header = json.loads((out / "run.json").read_text("utf-8"))
    footer = header.pop("footer")
    (out / "run.json").write_text(json.dumps(header), "utf-8")
    again = (*COMMAND, "run", "--resume", "--no-report", "--out", str(out))
    resumed = subprocess.run(again, check=False, timeout=NEVER_S)
    assert resumed.returncode == whole.returncode == 0
    assert json.loads((out / "run.json").read_text("utf-8"))["footer"]["cases"] == footer["cases"]
