"""Behaviours: the values that cases may record, and comparisons of brokers."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from brokerproof.harness.catalogue import behaviours
from brokerproof.harness.commands.cli import cli
from brokerproof.harness.model.verdicts import Impact, Verdict
from brokerproof.harness.results.behaviour_comparison import side_by_side
from brokerproof.harness.results.records import Result, append
from brokerproof.reports.model.tables.behaviours import behaviours as table
from brokerproof.reports.model.tables.behaviours import compared
from brokerproof.reports.sources.result_rows import flatten
from brokerproof.reports.sources.runs import open_runs
from brokerproof.suites.units.drivers.synthetic_run import header, write_header


def run(folder: Path, target: str, *cases: dict[str, tuple[str, ...]]) -> Path:
    """Write a run of ``target`` whose cases observed these behaviours."""
    write_header(folder, header(folder.name, targets=[target], finished=True))
    for number, seen in enumerate(cases):
        append(folder, Result(f"c.{number}", target, (), Verdict.PASS, "", behaviours=seen))
    return folder


def printed(*arguments: str | Path) -> str:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    return result.output


def test_a_value_is_one_of_the_list_or_a_number_of_its_unit() -> None:
    nack, most = (behaviours.listed()[name] for name in ("stomp.nack", "amqp091.frame-max"))
    assert nack.value("no-client") == "no-client"
    assert most.value(4096) == "4096"
    for behaviour, wrong in ((nack, "elsewhere"), (nack, 1), (most, "many")):
        with pytest.raises(ValueError, match=f"behaviour {behaviour.name} has no value"):
            behaviour.value(wrong)


def test_what_differs_stands_first_and_loss_above_the_rest() -> None:
    a = {"stomp.server": ["x"], "stomp.nack": ["no-client"], "stomp.session-id": ["each"]}
    b = {"stomp.server": ["y"], "stomp.nack": ["same-client"], "amqp.product": ["z"]}
    rows = side_by_side([a, b])
    assert [(row.name, row.differs) for row in rows] == [
        ("stomp.nack", True),
        ("stomp.server", True),
        ("stomp.session-id", False),
        ("amqp.product", False),
    ]
    assert rows[0].impact is Impact.LOSS
    assert rows[2].words(1) == "not seen"


def test_runs_are_compared_by_all_that_their_cases_saw(tmp_path: Path) -> None:
    a = run(tmp_path / "a", "old", {"stomp.nack": ("no-client",)}, {"amqp.product": ("B 1",)})
    b = run(tmp_path / "b", "new", {"stomp.nack": ("same-client",)}, {"stomp.nack": ("no-client",)})
    assert printed("behaviours", a, b).splitlines() == [
        "Where a message goes after NACK (loss)",
        "    no-client: old",
        "    no-client, same-client: new",
        "Product and version named in open (cosmetic)",
        "    B 1: old",
    ]
    rows = json.loads(printed("behaviours", "--differing", "--json", a, b))
    assert [row["behaviour"] for row in rows] == ["stomp.nack"]
    assert rows[0]["values"] == {"old": ["no-client"], "new": ["no-client", "same-client"]}


def test_diff_names_what_changed_without_a_verdict(tmp_path: Path) -> None:
    a = run(tmp_path / "a", "t", {"stomp.nack": ("no-client",), "stomp.server": ("x",)})
    b = run(tmp_path / "b", "t", {"stomp.nack": ("next-client",), "stomp.server": ("x",)})
    line = "behaviour: Where a message goes after NACK: no-client → next-client (loss)"
    lines = printed("diff", a, b).splitlines()
    assert [each for each in lines if each.startswith("behaviour")] == [line]
    assert "behaviour" not in printed("diff", "--regressions", a, b)
    changed = json.loads(printed("diff", "--json", a, b))["behaviours"]
    assert [row["values"] for row in changed] == [[["no-client"], ["next-client"]]]


def test_the_report_has_them_as_a_table_and_side_by_side(tmp_path: Path) -> None:
    folders = [
        run(tmp_path / "a", "old", {"stomp.nack": ("no-client",)}),
        run(tmp_path / "b", "new", {"stomp.nack": ("same-client",)}),
    ]
    rows = table(flatten(open_runs(folders)).results)
    expected = {"run": "a", "target": "old", "behaviour": "stomp.nack", "value": "no-client"}
    assert rows.to_pylist()[0] == expected
    (row,) = compared(rows, [("b", "new"), ("a", "old")])
    assert row.values == (("same-client",), ("no-client",))


def test_diff_names_the_target_where_several_changed(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, value in zip(folders, ("no-client", "next-client"), strict=True):
        for target in ("t", "u"):
            seen = {"stomp.nack": (value,)}
            run(folder, target, seen)
    lines = [line for line in printed("diff", *folders).splitlines() if "NACK" in line]
    assert [line.partition(":")[0] for line in lines] == ["behaviour of t", "behaviour of u"]
    changed = json.loads(printed("diff", "--json", *folders))["behaviours"]
    assert [row["target"] for row in changed] == ["t", "u"]
