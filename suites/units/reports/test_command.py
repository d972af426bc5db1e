"""``brokerproof report`` as a command: one sentence for bad input, before any JVM starts, and the
start of Spark."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.errors import PySparkException
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from brokerproof.harness.targets.java_runtime import NoJava, find_java
from brokerproof.reports.assembly import pipeline, report_writing
from brokerproof.reports.assembly.tasks import SparkTasks
from brokerproof.reports.command import report
from brokerproof.reports.spark import session as spark_session
from brokerproof.reports.spark.class_archive import ClassArchive
from brokerproof.reports.spark.gateway import NoGateway, gateway
from brokerproof.reports.spark.gateway import command as gateway_command
from brokerproof.suites.units.drivers.synthetic_run import full_run, header, write_header


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(report, [str(argument) for argument in arguments])


def refused(code: int, *arguments: str | Path) -> str:
    """Return the sentence with which the command fails: its only output."""
    result = invoke(*arguments)
    assert result.exit_code == code
    assert result.exception is None or isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    assert line.startswith("brokerproof report: ")
    assert result.stdout == ""
    return line


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def never(*_: object, **__: object) -> Iterator[SparkSession]:
        raise AssertionError("no JVM may be started for bad input")
        yield

    monkeypatch.setattr(spark_session, "context", never)


@pytest.mark.usefixtures("no_spark")
def test_what_is_no_run_is_refused_before_spark_starts(tmp_path: Path) -> None:
    assert "is not a run folder: it has no run.json" in refused(4, tmp_path)
    assert "is not a run folder" in refused(4, tmp_path / "missing")
    assert "name at least one run folder" in refused(4)
    write_header(tmp_path / "r", header("r"))
    assert "was given twice" in refused(4, tmp_path / "r", tmp_path / "r", "--out", tmp_path / "o")
    assert "several runs need --out" in refused(4, tmp_path / "r", tmp_path / "q")
    (tmp_path / "r" / "results.ndjson").write_text("garbage\n")
    assert "results.ndjson, line 1: is not a result" in refused(4, tmp_path / "r")


@pytest.mark.usefixtures("no_spark")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    write_header(tmp_path / "r", header("r"))
    (tmp_path / "file").write_text("")
    assert "file: the report cannot be written (File exists)" in refused(
        4, tmp_path / "r", "--out", tmp_path / "file"
    )
    assert "the report cannot be written (Not a directory)" in refused(
        4, tmp_path / "r", "--out", tmp_path / "file" / "below"
    )


@pytest.mark.parametrize("problem", [NoJava("no Java"), NoGateway("no JVM")])
def test_without_java_or_spark_set_up_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    @contextlib.contextmanager
    def failing(*_: object, **__: object) -> Iterator[SparkSession]:
        raise problem
        yield

    monkeypatch.setattr(spark_session, "context", failing)
    write_header(tmp_path, header("r"))
    assert refused(3, tmp_path) == f"brokerproof report: {problem}"


@pytest.fixture
def niceness(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Record requested niceness steps without applying them; SIGTERM keeps its effect."""
    steps: list[int] = []
    monkeypatch.setattr(os, "nice", steps.append)
    before = signal.getsignal(signal.SIGTERM)
    yield steps
    signal.signal(signal.SIGTERM, before)


def test_a_report_that_starts_early_reads_the_run_when_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, niceness: list[int]
) -> None:
    @contextlib.contextmanager
    def starting(*_: object, **__: object) -> Iterator[object]:
        write_header(tmp_path / "r", header("r"))  # before that, it is not a run
        yield object()

    warm: list[object] = []
    reported: list[object] = []
    monkeypatch.setattr(spark_session, "context", starting)
    monkeypatch.setattr(SparkTasks, "warm_up", lambda tasks, _: warm.append(tasks))
    monkeypatch.setattr(report_writing, "build", lambda tasks, *_, **__: reported.append(tasks))
    arguments = [str(tmp_path / "r"), "--early", "--json"]
    result = CliRunner().invoke(report, arguments, input="")
    assert (result.exit_code, result.output, reported) == (0, "", [])
    CliRunner().invoke(report, arguments, input="\n")
    assert reported == warm[1:]
    assert niceness == [5, 5]


def test_that_spark_did_not_start_early_is_reported_when_the_run_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, niceness: list[int]
) -> None:
    @contextlib.contextmanager
    def failing(*_: object, **__: object) -> Iterator[object]:
        raise NoJava("no Java")
        yield

    monkeypatch.setattr(spark_session, "context", failing)
    write_header(tmp_path, header("r"))
    unasked = CliRunner().invoke(report, [str(tmp_path), "--early"], input="")
    assert (unasked.exit_code, unasked.output) == (0, "")
    asked = CliRunner().invoke(report, [str(tmp_path), "--early"], input="\n")
    assert (asked.exit_code, asked.output) == (3, "brokerproof report: no Java\n")
    assert niceness == [5, 5]


def test_damage_that_only_spark_meets_is_named_and_anything_else_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def failing(*_: object, **__: object) -> Iterator[SparkSession]:
        raise PySparkException("first line\n  at java.lang.Thread")
        yield

    monkeypatch.setattr(spark_session, "context", failing)
    folder = full_run(tmp_path / "r")
    assert refused(5, folder) == "brokerproof report: Spark failed: first line"
    segment = next(folder.glob("trace/target=artemis/part-*.parquet"))
    data = bytearray(segment.read_bytes())
    data[4:2000] = bytes(1996)
    segment.write_bytes(data)
    assert "target=artemis/part-0-00000.parquet: is not a readable Parquet segment" in refused(
        4, folder
    )


def test_a_local_session_is_quiet_and_keeps_to_itself(tmp_path: Path) -> None:
    conf = spark_session.configuration("local[2]", tmp_path, 2)
    assert conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.sql.session.timeZone"] == "UTC"
    assert conf["spark.sql.shuffle.partitions"] == "2"
    assert conf["spark.sql.warehouse.dir"].startswith(tmp_path.as_uri())
    cluster = spark_session.configuration("spark://host:7077", tmp_path, 2)
    assert "spark.driver.bindAddress" not in cluster
    assert "spark.sql.shuffle.partitions" not in cluster


def test_the_jvm_is_not_asked_for_a_module_that_small_runtimes_lack(tmp_path: Path) -> None:
    conf = spark_session.configuration("local[2]", tmp_path, 2)
    found = gateway_command(find_java(17), Path(_find_spark_home()), conf)
    assert not [warning for warning in found if "incubator" in warning]
    assert found[-1] == "pyspark-shell"
    assert "org.apache.spark.deploy.SparkSubmit" in found


def test_a_spark_home_without_spark_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoGateway, match=r"contains no Spark: jars/spark-core_\*\.jar is missing"):
        gateway_command(find_java(17), tmp_path, {})


def test_a_jvm_that_ends_at_once_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'Error: out of luck' >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setattr("brokerproof.reports.spark.gateway.command", lambda *_: [str(java)])
    home = Path(_find_spark_home())
    with (
        pytest.raises(NoGateway, match="ended at once: Error: out of luck"),
        gateway(java, home, {}, tmp_path, ClassArchive()),
    ):
        pass


def test_work_beside_a_block_that_fails_is_cancelled() -> None:
    cancelled = threading.Event()
    tasks: Any = SimpleNamespace(cancel=cancelled.set)
    with pytest.raises(OSError, match="disk full"):  # noqa: SIM117
        with pipeline._beside(tasks, lambda: cancelled.wait(30)) as writing:
            raise OSError("disk full")
    assert writing.result() is True
