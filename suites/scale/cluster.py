"""The report and the judges on a real standalone Spark cluster of two workers on this machine; see
``tox -e cluster``."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from brokerproof.harness.catalogue.profiles import load
from brokerproof.harness.oracles.expectations import expectations_of
from brokerproof.harness.targets.java_runtime import find_java
from brokerproof.reports.assembly import report_writing
from brokerproof.reports.judging.judge import find_anomalies
from brokerproof.reports.sources.segments import local
from brokerproof.reports.spark.gateway import _environment
from brokerproof.reports.spark.session import JAVA_MINIMUM, session, spark_home
from brokerproof.suites.scale.load_trace import Anomalies, write
from brokerproof.suites.units.drivers.synthetic_run import full_run

WORKERS = 2
READY_LOOKS = 1500
"""Each look takes a fifth of a second; on a busy machine a JVM needs minutes."""
_MASTER_READY = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_READY = re.compile(r"Successfully registered with master")


@contextmanager
def daemon(log: Path, ready: re.Pattern[str], *arguments: str) -> Iterator[re.Match[str]]:
    """Run one of Spark's own processes; the block begins when its log reports it ready."""
    home = spark_home()
    java = find_java(JAVA_MINIMUM)
    environment = {**_environment(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    environment["JAVA_HOME"] = str(java.resolve().parent.parent)
    line = [str(java), "-cp", f"{home}/jars/*", "-Xmx512m", *arguments]
    with (
        log.open("wb") as out,
        subprocess.Popen(line, stdout=out, stderr=out, env=environment) as process,
    ):
        try:
            yield _said(log, ready, process)
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


def _said(log: Path, ready: re.Pattern[str], process: subprocess.Popen[bytes]) -> re.Match[str]:
    for _ in range(READY_LOOKS):
        match = ready.search(log.read_text("utf-8", "replace"))
        if match is not None:
            return match
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError(
        f"{log.name}: not ready; it said {log.read_text('utf-8', 'replace')[-500:]}"
    )


@contextmanager
def standalone(folder: Path, *, memory: str = "1g") -> Iterator[str]:
    """Start a master and two workers of one core each, which run until the block ends; yield the
    master's URL. ``folder`` is for logs and the workers' files. ``memory`` is per worker, in
    Spark's notation.
    """
    place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYSPARK_PYTHON", sys.executable)
        patched.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patched.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        started = daemon(
            folder / "master.log", _MASTER_READY, "org.apache.spark.deploy.master.Master", *place
        )
        url = stack.enter_context(started)[1]
        for number in range(WORKERS):
            of = ("--cores", "1", "--memory", memory, "--work-dir", str(folder / f"work{number}"))
            worker = ("org.apache.spark.deploy.worker.Worker", *place, *of, url)
            stack.enter_context(daemon(folder / f"worker{number}.log", _WORKER_READY, *worker))
        yield url


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a master that has two workers."""
    with standalone(tmp_path_factory.mktemp("cluster")) as url:
        yield url


def test_the_judges_find_five_anomalies_with_two_executors(master: str, tmp_path: Path) -> None:
    write(tmp_path, 200_000, Anomalies.all(50_000))
    with session(master, brief=True, heap="1g") as spark:  # as the command does
        source = local([str(tmp_path)], parallel=WORKERS)
        assert len(source.pieces) >= WORKERS
        anomalies = find_anomalies(
            spark, source, expectations_of("artemis", load("artemis").parameters)
        ).anomalies
        kinds = sorted(row.kind for row in anomalies.collect())
        executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    assert kinds == ["closed early", "disordered", "lost", "overrun", "shared"]
    assert executors == WORKERS


def test_the_report_is_the_same_as_on_this_process_alone(master: str, tmp_path: Path) -> None:
    run = full_run(tmp_path / "run")
    there = report_writing.write([run], tmp_path / "there", master)
    here = report_writing.write([run], tmp_path / "here")
    assert there.pages == here.pages
    assert there.model.totals == here.model.totals
    for name in ("summary.md", "badge.json"):
        assert (tmp_path / "there" / name).read_text() == (tmp_path / "here" / name).read_text()
