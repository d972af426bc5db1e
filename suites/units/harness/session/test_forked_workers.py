"""Virtual-time cases in separate processes: results do not depend on the worker, and none is
lost."""

import os
import select
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import Case, Over
from brokerproof.harness.cases.example_runs import Call, Run
from brokerproof.harness.cases.execution import execute
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.results.records import Result
from brokerproof.harness.session.forked_workers import Workers, heaviest_first
from brokerproof.harness.targets import target_file
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.suites.units.drivers.commands import command

MUST = "STOMP12-HDR-17"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    target = target_file.load("reference")
    facts = target.start(tmp_path_factory.mktemp("logs"))
    recorder = Recorder(None, run="run", target=target.identity.name, clock=target.clock)
    yield Run(target, facts, requirements.load(), (), recorder, effort="normal", seed=7)
    target.stop()


def property_of(target: Bench, size: int) -> None:
    peer = target.stomp()
    peer.publish(target.destination(), b"x" * size, proves=MUST)
    target.judge_count(MUST, "size", size, (0, 40), "octets")


def crash(target: Bench) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def single(target: Bench) -> None:
    target.stomp().publish(target.destination(), b"x", proves=MUST)


def leaves(target: Bench) -> None:
    sys.exit(3)


def warns(target: Bench) -> None:
    warnings.warn("this will be an error one day", DeprecationWarning, stacklevel=1)
    single(target)


def call(name: str, function: object, over: Over | None = None) -> Call:
    about = Case(name, "units", function, {None: (MUST,)}, frozenset(), "", "here:1", over)  # type: ignore[arg-type]
    return Call(about, None, {}, name)


def judged(run: Run, calls: Sequence[Call], processes: int, kept: Path) -> list[Result]:
    workers = Workers(
        calls,
        processes,
        lambda name: replace(
            run, recorder=Recorder(kept, "run", "reference", run.target.clock, name)
        ),
        "reference",
        lambda result: records.append(kept, result),
    )
    try:
        return [workers.result(call) for call in calls]
    finally:
        workers.stop()


def the_same(result: Result) -> Result:
    return replace(result, duration_s=0.0, trace_ref="")


def traced(folder: Path, target: str = "reference") -> list[str]:
    """The cases whose complete trace is recorded, once per recording."""
    table = ds.dataset(folder / "trace" / f"target={target}", format="parquet").to_table(
        columns=["case", "kind"]
    )
    return [row["case"] for row in table.to_pylist() if row["kind"] == "CaseEnded"]


def test_results_do_not_depend_on_who_runs_a_case(run: Run, tmp_path: Path) -> None:
    sizes = {"size": st.integers(0, 45)}
    calls = [call(f"units.{number}", property_of, Over(sizes, 20)) for number in range(6)]
    calls += [call(f"units.single-{number}", single) for number in range(6)]
    alone = [the_same(execute(run, call)) for call in calls]
    assert {result.verdict for result in alone} == {Verdict.PASS, Verdict.FAIL}, (
        "or there is little to be told apart"
    )
    for processes in (1, 3):
        folder = tmp_path / str(processes)
        folder.mkdir()
        assert [the_same(result) for result in judged(run, calls, processes, folder)] == alone
        assert sorted(result.case for result in records.read(folder)) == sorted(
            call.id for call in calls
        )
        assert sorted(traced(folder)) == sorted(call.id for call in calls)
        parts = (folder / "trace" / "target=reference").glob("part-*.parquet")
        assert sorted(part.name for part in parts) == [
            f"part-w{number}-00000.parquet" for number in range(processes)
        ]


def test_a_worker_that_dies_takes_one_case_with_it_and_it_is_told_which(
    run: Run, tmp_path: Path
) -> None:
    calls = [call(f"units.{number}", single) for number in range(8)]
    calls[2:2] = [call("units.killed", crash), call("units.left", leaves)]
    found = judged(run, calls, 2, tmp_path)
    bad = {result.case: result.detail for result in found if result.verdict is not Verdict.PASS}
    assert list(bad) == ["units.killed", "units.left"]
    assert "the process that ran the case ended by SIGKILL" in bad["units.killed"]
    assert "the process that ran the case ended with exit code 3" in bad["units.left"]
    assert [result.verdict for result in found].count(Verdict.ERROR) == 2
    assert sorted(result.case for result in records.read(tmp_path)) == sorted(
        call.id for call in calls
    )


def test_a_warning_is_an_error_there_too(run: Run, tmp_path: Path) -> None:
    found = judged(run, [call("units.warns", warns), call("units.single", single)], 2, tmp_path)
    assert [result.verdict for result in found] == [Verdict.ERROR, Verdict.PASS]
    assert "DeprecationWarning: this will be an error one day" in found[0].detail


def test_properties_of_many_examples_come_first(run: Run) -> None:
    many = Over({"size": st.integers()}, 500)
    calls = [
        call("single", single),
        call("few", single, replace(many, examples=20)),
        call("many", single, many),
    ]
    assert [call.id for call in heaviest_first(run, calls)] == ["many", "few", "single"]


BLOCKING = """
import os
from brokerproof.reference_broker.runtime import virtual
made = 0

def make(config, overrides, *, start):
    global made
    made += 1
    if made == 9 and os.path.exists("never"):  # the ninth world of each worker is never made
        with open("ready", "w") as told:
            told.write("x")
        open("never").read()
    return virtual.make(config, overrides, start=start)
"""


def children(pid: int) -> list[int]:
    found = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*found, *(below for result in found for below in children(result))]


def test_a_run_that_is_told_to_end_ends_whole_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "blocking_broker.py").write_text(BLOCKING)
    shipped = Path(str(files("brokerproof.fixtures"))) / "brokers" / "artemis"
    (tmp_path / "blocking.target.toml").write_text(
        'kind = "virtual"\nprofile = "artemis"\nfactory = "blocking_broker:make"\nlogin ='
        f' "brokerproof"\npasscode = "brokerproof"\nconfig = "{shipped / "broker.xml"}"\n'
    )
    for name in ("ready", "never"):
        os.mkfifo(tmp_path / name)
    line = command(
        "run --target blocking.target.toml --suite crossing --case settlement --effort smoke"
        " --seed 5 --no-report -n 2 --out run"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    folder = tmp_path / "run"
    ready = os.open(tmp_path / "ready", os.O_RDONLY | os.O_NONBLOCK)
    with subprocess.Popen(
        line, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            ended = os.pidfd_open(process.pid)
            assert select.select([ready, ended], [], [], 90)[0] == [ready], (
                "no worker has come to its ninth world"
            )
            below = children(process.pid)
            process.terminate()
            said = process.communicate(timeout=90)[1]
        finally:
            process.kill()
            os.close(ready)
            os.close(ended)
    assert len(below) == 3, "pytest and two workers"
    assert process.returncode == 130, said
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()], "somebody was left behind"
    before = [result.case for result in records.read(folder)]
    assert 0 < len(before) < len(run_folder.cases_of(folder))
    assert sorted(traced(folder, "blocking")) == sorted(before)
    (tmp_path / "never").unlink()
    again = subprocess.run(
        [*line, "--resume"],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    after = [result.case for result in records.read(folder)]
    assert after[: len(before)] == before
    assert sorted(after) == sorted(run_folder.cases_of(folder))
    assert sorted(traced(folder, "blocking")) == sorted(after)


def is_cut_off(target: Bench, size: int) -> None:
    """The case gets SIGTERM in an example, so Hypothesis calls it flaky."""
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    except BaseException:
        raise ValueError("an error that follows the end") from None


def test_a_case_that_was_cut_off_has_no_result(run: Run, tmp_path: Path) -> None:
    calls = [
        call("units.single", single),
        call("units.cut", is_cut_off, Over({"size": st.just(1)}, 5)),
    ]
    kept: list[str] = []
    workers = Workers(
        calls,
        1,
        lambda name: replace(
            run, recorder=Recorder(tmp_path, "run", "reference", run.target.clock, name)
        ),
        "reference",
        lambda result: kept.append(result.detail),
    )
    try:
        workers.result(calls[0])
        lost = workers.result(calls[1])
    finally:
        workers.stop()
    assert lost.verdict is Verdict.ERROR
    assert lost.detail.startswith("the process that ran the case ended"), (
        "not what the case made of it"
    )
    assert "units.single" in traced(tmp_path)


def test_a_trace_is_kept_with_its_result(run: Run, tmp_path: Path) -> None:
    def end_and_keep(result: Result) -> None:
        os.kill(os.getpid(), signal.SIGTERM)  # the trace has been written by then
        records.append(tmp_path, result)

    workers = Workers(
        [call("units.single", single)],
        1,
        lambda name: replace(
            run, recorder=Recorder(tmp_path, "run", "reference", run.target.clock, name)
        ),
        "reference",
        end_and_keep,
    )
    process = workers._workers[0].process
    process.join(30)
    workers.stop()
    assert (
        traced(tmp_path) == [result.case for result in records.read(tmp_path)] == ["units.single"]
    )
