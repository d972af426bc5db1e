"""A light installation, without PySpark and Java, writes the same report as Spark does, and judges
recordings of ordinary size."""

import filecmp
import json
import os
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
from brokerproof.suites.units.drivers.light_python import Light
from brokerproof.suites.units.drivers.synthetic_run import full_run


def test_the_report_is_the_one_that_spark_writes(
    tmp_path: Path, light: Light, spark: SparkSession
) -> None:
    run = full_run(tmp_path / "r")
    by_spark, here = tmp_path / "by-spark", tmp_path / "here"
    build(SparkTasks(spark.sparkContext), open_runs([run]), by_spark, Requirements(load().values()))
    written = light("report", run, "--out", here, "--early", "--quiet")
    assert (written.returncode, written.stdout, written.stderr) == (0, "", "")
    names = {str(path.relative_to(by_spark)) for path in by_spark.rglob("*") if path.is_file()}
    assert names == {str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()}
    assert len(names) > 30
    _, other, unread = filecmp.cmpfiles(by_spark, here, names, shallow=False)
    assert (other, unread) == ([], [])


def test_a_run_is_judged_and_what_takes_spark_names_the_extra(tmp_path: Path, light: Light) -> None:
    run = full_run(tmp_path / "r")
    judged = light("judge", run, "--json")
    assert judged.returncode == 0, judged.stderr
    assert json.loads(judged.stdout)["looked_at"]["connection"]["groups"] > 0
    for option in (["judge", run], ["report", run], ["report", run, "--tables"]):
        chosen = option if "--tables" in option else [*option, "--master", "local[1]"]
        refused = light(*chosen)
        assert refused.returncode == 3
        assert refused.stderr.endswith("needs Spark: pip install 'brokerproof[spark]'\n")
    soak = light("soak", "--target", "reference-real")
    assert soak.returncode == 3
    assert soak.stderr == "Error: pyspark is not installed: pip install 'brokerproof[spark]'\n"


def _ends(_: object) -> Iterator[tuple[int, str]]:
    os._exit(1)


def test_a_process_that_ends_is_one_sentence() -> None:
    with (
        pytest.raises(OurError, match="a process that writes case pages ended"),
        in_one_sentence(),
        local_tasks() as tasks,
    ):
        list(tasks.by_key(_ends, [1], str, 1))
