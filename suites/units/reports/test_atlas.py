"""The atlas: which releases it runs or skips, and its pages about them."""

import csv
import json
import re
from contextlib import nullcontext
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from brokerproof.harness.cases import case_index
from brokerproof.harness.catalogue import releases
from brokerproof.harness.model.finding import JudgedFinding
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results.records import Result, append
from brokerproof.harness.targets import strangers, target_file
from brokerproof.reports.assembly import report_writing
from brokerproof.reports.atlas_command import atlas
from brokerproof.suites.units.drivers.synthetic_run import header, write_header

LOSS, OTHER, ALWAYS = "STOMP12-RCPT-01", "STOMP12-HB-04", "STOMP12-ENC-02"
ENTRY = '[[broker]]\nname = "{}"\norigin = "here"\ntarget = "{}"\nreleases = {}\n'


def said(command: str, folder: Path, *options: str, code: int = 0) -> str:
    named = ["--out"] * (command == "run") + [str(folder), "--releases", str(folder / "list.toml")]
    ran = CliRunner().invoke(atlas, [command, *named, *options], catch_exceptions=False)
    assert ran.exit_code == code, ran.output
    return ran.stdout


def test_each_listed_release_is_a_target_with_a_folder_of_its_own() -> None:
    listed = releases.load()
    assert len({release.slug for release in listed}) == len(listed)
    for release in listed:
        name = release.target.partition("@")[0].removeprefix(strangers.WORD)
        assert name in strangers.NAMES or target_file.load(release.target)


def test_what_is_there_is_not_run_again_and_what_was_cut_off_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = ENTRY.format("Two", "{}", ["absent", "stranger:nobody@1", "reference"])
    chosen = 'arguments = ["--case", "a_frame_that_does_not_ask_gets_no_receipt"]'
    (tmp_path / "list.toml").write_text(entry + chosen)
    first = said("run", tmp_path)
    assert "3 to judge" in first
    assert "stranger:nobody@1: there is no such broker; choose coilmq" in first
    assert "Two absent: --target 'absent' is not a target file" in first
    assert "2 to judge" in said("run", tmp_path)
    run = tmp_path / "runs/two-reference"
    results, begun = run / "results.ndjson", json.loads((run / "run.json").read_text())["started"]
    lines = results.read_text().splitlines(keepends=True)
    assert len(lines) > 1
    results.write_text(lines[0])
    outcome = run.with_suffix(".json")
    outcome.write_text(outcome.read_text().replace('"code": 0', '"code": null'))
    assert "1 to judge\nTwo reference: judged" in said("run", tmp_path, "--only", "two ref*")
    assert len(results.read_text().splitlines()) == len(lines)
    assert json.loads((run / "run.json").read_text())["started"] == begun
    monkeypatch.setattr(case_index, "digest", lambda: "other suites")
    assert said("run", tmp_path, "--only", "*ref*", "--for", "1s", code=130)[-11:] == "1 to judge\n"
    assert json.loads(outcome.read_text())["sentence"] == "was interrupted"


def recorded(atlas_folder: Path, slug: str, *broken: str) -> None:
    run = atlas_folder / "runs" / slug
    write_header(run, header(slug) | {"started": "2026-11-28T10:00:00+00:00"})
    for name in (OTHER, LOSS, ALWAYS):
        bad = name in (*broken, ALWAYS)
        verdict, seen = (Verdict.FAIL, Seen.VIOLATED) if bad else (Verdict.PASS, Seen.HELD)
        findings = (JudgedFinding(name, seen, "", verdict=verdict),)
        nack = {"stomp.nack": ("discards" if bad else "requeues-first",)} if name == LOSS else {}
        append(run, Result(name, "reference", (name,), verdict, "", findings, behaviours=nack))


def test_pages_say_when_a_difference_came_and_went_and_lead_with_the_worst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = ENTRY.format("A", "{}", ["1", "2", "3", "4"]), ENTRY.format("B", "b@{}", ["1", "2"])
    (tmp_path / "list.toml").write_text("".join(entries) + 'unfit = "needs Java 6"')
    for version, broken in enumerate(([LOSS], [], [LOSS, OTHER], []), 1):
        recorded(tmp_path, f"a-{version}", *broken)
    reports = []

    def report(runs: list[Path], out: Path, **_: object) -> None:
        reports.append(out.name)
        out.mkdir(parents=True)
        for page in ("index", "case"):
            (out / f"{page}.html").touch()

    monkeypatch.setattr(report_writing, "write", report)
    monkeypatch.setattr(report_writing, "processes", lambda *_, **__: nullcontext())
    said("build", tmp_path)
    said("build", tmp_path)
    assert reports == ["a-1", "a-2", "a-3", "a-4"]
    site = tmp_path / "site"
    words = {
        page.name: " ".join(re.sub(r"<style.*?</style>|<[^>]+>", " ", page.read_text()).split())
        for page in site.glob("*.html")
    }
    assert "B 1: needs Java 6" in words["index.html"]
    assert "broken 1 → kept 2 → broken 3 → kept 4" in words["broker-A.html"]
    assert "discards 1 → requeues-first 2 → discards 3" in words["broker-A.html"]
    assert "kept 1 to 2 → broken 3 → kept 4" in words["broker-A.html"]
    assert "broken 1 to 4" in words["broker-A.html"].partition("Broken in every")[2]
    better = words["change-a-3--a-4.html"].partition("Better")[2]
    assert 0 < better.index(LOSS) < better.index(OTHER)
    assert "change-a-1--a-4.html" in words
    links = {
        link for page in words for link in re.findall(r'href="([^"#]+)', (site / page).read_text())
    }
    assert [link for link in links if not (site / link).exists()] == []
    assert "releases/a-3/case.html" in links
    (data,) = (site / "data").iterdir()
    assert re.fullmatch(r"brokerproof-atlas-[\d.]+-2026-11-28", data.name)
    with (data / "verdicts.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    found = [row["verdict"] for row in rows]
    assert found == pq.read_table(data / "verdicts.parquet").column("verdict").to_pylist()
