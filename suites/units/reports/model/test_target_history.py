"""Several runs in one report: order, columns, and each target's history. Without Spark."""

from pathlib import Path
from typing import Any

from brokerproof.reports.model.index_model_builder import bars, columns, shown_columns
from brokerproof.reports.model.quantities import minute
from brokerproof.reports.model.target_history import Step, in_order, pasts
from brokerproof.reports.sources.runs import Run
from brokerproof.reports.view.templates import breakable
from brokerproof.suites.units.drivers.synthetic_run import header

COUNTS = [
    {"run": run, "target": target, "verdict": verdict, "cases": 2, "seconds": 0.5}
    for run, target, verdict in [
        ("new", "t", "FAIL"),
        ("new", "t", "PASS"),
        ("old", "t", "PASS"),
        ("old", "u", "PASS"),
        ("new", "extra", "PASS"),
    ]
]


def run(name: str, started: str, *targets: str, version: str = "1.0", finished: bool = True) -> Run:
    values: dict[str, Any] = header(name, targets=targets, finished=finished) | {"started": started}
    for target in values["targets"]:
        target["version"] = version
    return Run(Path(name), name, values)


NEW = run("new", "2026-11-02T00:00:00+00:00", "t", version="2.0")
OLD = run("old", "2026-11-01T00:00:00+00:00", "u", "t", finished=False)


def test_runs_stand_in_the_order_in_which_they_began() -> None:
    silent = Run(Path("silent"), "silent", {})
    assert [run.name for run in in_order([NEW, OLD, silent])] == ["silent", "old", "new"]


def test_a_target_has_its_runs_side_by_side_and_the_last_is_the_latest() -> None:
    found = columns([NEW, OLD], COUNTS)
    assert [(past.target, past.run, past.facts, past.latest) for past in found] == [
        ("u", "old", "1.0 · profile artemis", True),
        ("t", "old", "1.0 · profile artemis", False),
        ("t", "new", "2.0 · profile artemis", True),
        ("extra", "new", "", True),
    ]
    assert [past.label for past in found][:2] == ["u · old", "t · old"]


def test_when_there_are_too_many_columns_the_latest_runs_are_shown() -> None:
    every = columns([NEW, OLD], COUNTS)
    assert [(column.target, column.run) for column in shown_columns(every, [NEW, OLD], 3)] == [
        ("u", "old"),
        ("t", "new"),
        ("extra", "new"),
    ]
    assert shown_columns(every, [NEW, OLD], 9) == every


def test_only_targets_of_several_runs_have_a_past() -> None:
    changes = [
        {
            "target": "t",
            "case": "c",
            "course": "WORSE",
            "runs": [{"run": "old", "verdict": "PASS"}, {"run": "new", "verdict": "FAIL"}],
        },
        {
            "target": "t",
            "case": "d",
            "course": "BETTER",
            "runs": [{"run": "new", "verdict": "PASS"}],
        },
    ]
    ways = {("t", "BETTER"): 1, ("t", "WORSE"): 4}
    counts = {
        (bar.column.run, bar.column.target): dict(bar.counts)
        for bar in bars(columns([NEW, OLD], COUNTS), COUNTS)
    }
    (found,) = pasts([NEW, OLD], counts, changes, ways, {("new", "t", "c"): "cases/c.html"})
    assert found.target == "t"
    assert [(stage.run, stage.counts, stage.cases, stage.cut_off) for stage in found.stages] == [
        ("old", {"PASS": 2}, 2, True),
        ("new", {"FAIL": 2, "PASS": 2}, 4, False),
    ]
    assert found.verdicts == ["FAIL", "PASS"]
    assert found.changed[0].steps == (
        Step("old", "PASS", None),
        Step("new", "FAIL", "cases/c.html"),
    )
    assert found.changed[1].steps[0] is None
    assert found.changed_total == 5
    assert list(found.ways) == ["WORSE", "BETTER"]


def test_long_names_break_between_words_and_instants_stop_at_the_minute() -> None:
    assert breakable("a_b.c_d_e[1.2]<i>") == "a_b.c_d_<wbr>e[1.2]&lt;i&gt;"
    assert minute("2026-11-21T12:00:09+00:00") == "2026-11-21 12:00"
