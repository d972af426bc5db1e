"""The kill matrix in the report: it is read, rejected with a sentence, and drawn."""

import json
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, PackageLoader, StrictUndefined

from brokerproof.reports.sources.mutants import read
from brokerproof.reports.sources.runs import UnreadableRun

ONE = {
    "name": "acks.x",
    "group": "acks",
    "fault": "An <ACK> is lost.",
    "status": "killed",
    "reason": "",
}
OTHER = {
    "name": "ttl.y",
    "group": "ttl",
    "fault": "Late.",
    "status": "survived",
    "reason": "nobody can see it",
}


def write(folder: Path, **changes: Any) -> Path:
    data = {
        "format": 1,
        "killed": 1,
        "effort": "smoke",
        "extent": "citing cases",
        "seed": 1,
        "mutants": [ONE, OTHER],
        "requirements": {"STOMP12-ACK-01": {"acks.x": "●"}},
        "controls": {"control.identity": {"PASS": 3}},
    }
    (folder / "mutants.json").write_text(json.dumps(data | changes), "utf-8")
    return folder


def test_a_run_without_a_matrix_has_none(tmp_path: Path) -> None:
    assert read(tmp_path) is None


def test_what_is_read(tmp_path: Path) -> None:
    matrix = read(write(tmp_path))
    assert matrix is not None
    assert (matrix.rate, matrix.killed, matrix.mutants) == ("50.0%", 1, 2)
    expected = [("acks", 1, 1), ("ttl", 1, 0)]
    assert [(group.group, group.mutants, group.killed) for group in matrix.groups] == expected
    assert [mutant["name"] for mutant in matrix.left] == ["ttl.y"]
    assert matrix.rows[0].marks == (("acks.x", "●", "An <ACK> is lost."),)


def test_faults_that_only_a_control_noticed_are_counted(tmp_path: Path) -> None:
    matrix = read(write(tmp_path, mutants=[ONE, OTHER, OTHER | {"status": "noticed"}]))
    assert matrix is not None
    assert (matrix.killed, matrix.noticed, len(matrix.left)) == (1, 1, 2)
    section = _templates().get_template("mutants.html.j2").render(mutants=[matrix])
    assert "that the fault breaks. 1 more only made controls fail." in section


def test_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRun, match=r"mutants\.json: is a kill matrix of another version"):
        read(write(tmp_path, format=2))
    (tmp_path / "mutants.json").write_text("{")
    with pytest.raises(UnreadableRun, match=r"mutants\.json: is not a kill matrix"):
        read(tmp_path)


def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("brokerproof.reports.view", "."),
        autoescape=True,
        undefined=StrictUndefined,
    )


def test_the_section_says_what_survived_and_escapes_what_it_quotes(tmp_path: Path) -> None:
    templates = _templates()
    section = templates.get_template("mutants.html.j2").render(mutants=[read(write(tmp_path))])
    assert "1 of 2 seeded faults" in section
    assert "ttl.y: survived. Late. nobody can see it" in section
    assert "An &lt;ACK&gt; is lost." in section
    assert templates.get_template("mutants.html.j2").render(mutants=[]).strip() == ""
