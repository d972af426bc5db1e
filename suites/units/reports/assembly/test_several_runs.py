"""A report on several runs of one target, and on runs that were compared with a baseline."""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark import SparkContext
from pyspark.sql import SparkSession

from brokerproof.harness.model.finding import JudgedFinding
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results.records import Result, append
from brokerproof.reports import command
from brokerproof.reports.model.index_model import Bar, Column
from brokerproof.reports.model.overview import overview
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.sources.runs import open_runs
from brokerproof.reports.spark import session as spark_session
from brokerproof.suites.units.drivers.synthetic_run import header, write_header

BASELINE = {
    "run": "last good",
    "counts": {"worse": 1, "undecided": 1, "better": 0, "same": 7},
    "changes": [
        {"course": "WORSE", "target": "reference", "case": "c.broke", "verdicts": ["PASS", "FAIL"]},
        {
            "course": "UNDECIDED",
            "target": "reference",
            "case": "c.lost",
            "verdicts": ["PASS", None],
        },
    ],
    "lost": [{"target": "reference", "observed": "precondition not met: no topic", "cases": 2}],
}
"""A comparison as ``brokerproof run --baseline`` stores it."""


@pytest.fixture(scope="module")
def several(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """Report on one target in two runs, given newest first, the newest cut off; return the report's
    folder and the command's output."""
    folder = tmp_path_factory.mktemp("several")
    said = {
        "new": {"c.broke": Verdict.FAIL, "c.steady": Verdict.PASS, "c.mended": Verdict.PASS},
        "old": {
            "c.broke": Verdict.PASS,
            "c.steady": Verdict.PASS,
            "c.mended": Verdict.ERROR,
            "c.gone": Verdict.PASS,
        },
    }
    for month, (name, verdicts) in zip((11, 10), said.items(), strict=True):
        values = header(name, finished=name == "old") | {
            "started": f"2026-{month}-21T12:00:00+00:00"
        }
        values["targets"][0]["version"] = f"2.{month}.0"
        values["baseline"] = BASELINE
        write_header(folder / name, values)
        for case, verdict in verdicts.items():
            append(folder / name, Result(case, "reference", (), verdict, f"{verdict} it was"))
    with (folder / "new" / "results.ndjson").open("a") as file:
        file.write('{"case":')
    kept = folder / "report" / "cases" / "notes.html"
    kept.parent.mkdir(parents=True)
    kept.write_text("mine")
    kept.with_name("artemis-old-case-0123456789.html").write_text("old")

    return folder / "report", reported(spark, folder, said)


def reported(spark: SparkSession, folder: Path, runs: Iterable[str]) -> dict[str, Any]:
    """Report on the runs in ``folder`` with these names; return the command's output."""

    @contextlib.contextmanager
    def shared(*_: object, **__: object) -> Iterator[SparkContext]:
        yield spark.sparkContext

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spark_session, "context", shared)
        arguments = [
            *(str(folder / name) for name in runs),
            "--out",
            str(folder / "report"),
            "--json",
        ]
        result = CliRunner().invoke(command.report, arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def test_what_was_written_is_printed(several: tuple[Path, dict[str, Any]]) -> None:
    folder, printed = several
    assert printed["index"] == str(folder / "index.html")
    assert Path(printed["index"]).is_file()
    expected = [("new", False), ("old", True)]
    assert [(row["run"], row["finished"]) for row in printed["runs"]] == expected
    assert [(row["run"], row["target"], row["verdicts"]) for row in printed["targets"]] == [
        ("old", "reference", {"ERROR": 1, "PASS": 3}),
        ("new", "reference", {"FAIL": 1, "PASS": 2}),
    ]


def test_a_second_report_leaves_no_page_of_the_first(several: tuple[Path, dict[str, Any]]) -> None:
    folder, printed = several
    names = {path.name for path in (folder / "cases").iterdir() if path.is_file()}
    assert (folder / "cases" / "notes.html").read_text() == "mine"
    assert "artemis-old-case-0123456789.html" not in names
    assert len([name for name in names if name.endswith(".js")]) == 1
    # Broken and failed cases are linked from their former pages.
    assert len(names) == 1 + 2 + 1
    assert printed["pages"] == 7


def test_a_run_that_was_cut_off_is_named_everywhere(several: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = several
    found = (folder / "index.html").read_text()
    assert "Run new was cut off before it ended" in found
    assert "new/results.ndjson was incomplete and is left out" in found
    assert "has no recorded trace" in found
    assert "was cut off before it ended" in (folder / "summary.md").read_text()


def test_several_runs_of_a_target_are_shown_over_time(several: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = several
    found = (folder / "index.html").read_text()
    section = found[found.index('<h2 id="time">') : found.index('<h2 id="cases">')]
    assert "2 cases changed: 1 worse, 1 better" in section
    cells = (
        r'<tr><th scope="row" class="case">c\.(\w+)</th><td class="went'
        r' (\w+)">\w+</td>(.*)</tr>'
    )
    steps = {
        case: (way, re.findall(r'class="v (\w+)" href="case[^"]+" title="\w+ in (\w+)"', rest))
        for case, way, rest in re.findall(cells, section)
    }
    assert steps == {
        "broke": ("WORSE", [("PASS", "old"), ("FAIL", "new")]),
        "mended": ("BETTER", [("ERROR", "old"), ("PASS", "new")]),
    }
    assert section.index("2.10.0") < section.index("2.11.0")
    assert pq.read_table(folder / "tables" / "history.parquet").num_rows == 4


def test_what_changed_since_the_baseline_is_on_the_first_screen(
    several: tuple[Path, dict[str, Any]],
) -> None:
    folder, _ = several
    found = (folder / "index.html").read_text()
    assert found.count("Compared with the baseline last good") == 1  # only the last run's
    line = found[found.index("Compared with the baseline") :].partition("</header>")[0]
    assert "last good, whose date and version were not recorded" in line
    assert ", run new:" in line
    assert "1 worse, 1 undecided</a>" in line
    assert "better" not in line
    section = found[found.index('<h2 id="baseline">') : found.index('<h2 id="time">')]
    assert (
        "reference no longer offers a service that 2 cases rely on: precondition not met: no t"
        in section
    )
    cells = re.findall(
        r'<th scope="row" class="case">(<a href="(case[^"]+)">)?c\.(\w+)(?:</a>)?.*?'
        r'<td class="went (\w+)">.*?title="([A-Z]+).*?title="([A-Za-z ]+)',
        section,
    )
    expected = [("broke", "WORSE", "PASS", "FAIL"), ("lost", "UNDECIDED", "PASS", "not judged")]
    assert [(name, way, before, now) for _, _, name, way, before, now in cells] == expected
    assert cells[0][1]
    assert not cells[1][1]  # it has no page in this run


@pytest.mark.parametrize("damaged", [None, [], {"run": "x"}, {**BASELINE, "changes": [{}]}])
def test_a_comparison_that_cannot_be_read_is_none(tmp_path: Path, damaged: object) -> None:
    write_header(tmp_path, {**header("r"), "baseline": damaged})
    append(tmp_path, Result("c.broke", "reference", (), Verdict.FAIL, ""))
    runs = open_runs([tmp_path])
    latest = Bar(Column("r", "reference", "reference", ""), (), 0.0)
    assert overview(runs, [latest], [], [], Requirements([])).comparisons == []


def test_the_last_run_of_each_target_makes_the_headline(
    several: tuple[Path, dict[str, Any]],
) -> None:
    folder, _ = several
    found = (folder / "index.html").read_text()
    assert re.search(r"<h1>1 FAIL, 2 PASS <span", found)
    badge = json.loads((folder / "badge.json").read_text())
    assert badge["message"] == "cut off: 1 fail, 2 of 3 pass"
    assert found.count('class="card"') == 1
    assert '<span class="soft run">new</span>' in (folder / "summary.html").read_text()


def test_many_targets_whose_past_is_not_known_are_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = [f"t{number}" for number in range(5)]
    values = header("run", finished=True)
    values["targets"] = [values["targets"][0] | {"name": name} for name in names]
    write_header(tmp_path / "run", values)
    broken = JudgedFinding("STOMP12-RCPT-01", Seen.VIOLATED, "no RECEIPT", verdict=Verdict.FAIL)
    for name in names:
        result = Result("c.x", name, ("STOMP12-RCPT-01",), Verdict.FAIL, "no RECEIPT", (broken,))
        append(tmp_path / "run", result)
    reported(spark, tmp_path, ["run"])
    index = (tmp_path / "report" / "index.html").read_text()
    assert index.count("no RECEIPT") >= len(names)
