"""The whole report on a synthetic run: it has its files and stays small, escaped and readable."""

import ast
import base64
import gzip
import html
import json
import random
import re
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from brokerproof.harness.catalogue.requirements import load
from brokerproof.harness.model.time import seconds
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.records import Result, append
from brokerproof.harness.results.verdict import never_reached
from brokerproof.reports.assembly import case_data, pipeline
from brokerproof.reports.assembly.case_data import chunk_of
from brokerproof.reports.assembly.pipeline import Report, build
from brokerproof.reports.assembly.tasks import SparkTasks
from brokerproof.reports.model.index_model_builder import Limits
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.model.slugs import case_link, slug
from brokerproof.reports.model.target_summaries import read_measured
from brokerproof.reports.sources.runs import UnreadableRun, open_runs
from brokerproof.suites.units.drivers.synthetic_run import full_run, header, write_header

MEASURED = {
    "parameter": "connection_ttl_min_ms",
    "documented": 1000,
    "choice": None,
    "unit": "ms",
    "how": "bisected",
}
"""Output of `brokerproof infer --json` for one parameter, without its bounds."""


@pytest.fixture(scope="module")
def requirements() -> Requirements:
    return Requirements(load().values())


@pytest.fixture(scope="module")
def written(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, requirements: Requirements
) -> Report:
    folder = full_run(tmp_path_factory.mktemp("my runs é {1}") / "2026-11-21T12-00-00")
    measured = {"artemis": [{**MEASURED, "agrees": False, "low": 900.0, "high": 950.5}]}
    return build(
        SparkTasks(spark.sparkContext),
        open_runs([folder]),
        folder / "report",
        requirements,
        measured=measured,
        trace_tables=True,
    )


FAILING = "stomp.liveness.a_silent_connection_is_closed[1.2]"


def text(report: Report, name: str = "index.html") -> str:
    return (report.folder / name).read_text("utf-8")


def chunks(report: Report) -> list[dict[str, Any]]:
    found = []
    for path in sorted((report.folder / "cases").glob("*.js")):
        packed = re.fullmatch(r'brokerproof_cases\((\d+),"(.*)"\);\n', path.read_text())
        assert packed is not None
        assert path.stem == f"{int(packed[1]):05}"
        found.append(json.loads(gzip.decompress(base64.b64decode(packed[2]))))
    return found


def page(report: Report, case: str, target: str) -> dict[str, Any]:
    (row,) = [
        row
        for chunk in chunks(report)
        for row in chunk["cases"]
        if (row["case"], row["target"]) == (case, target)
    ]
    found: dict[str, Any] = row
    return found


def unpacked(report: Report) -> dict[str, Any]:
    """Return the contents that the index's script unpacks."""
    (packed,) = re.findall(r'<script type="text/plain" id="listing">([^<]*)</script>', text(report))
    told: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return told


def test_every_case_has_a_page_in_the_chunk_that_its_link_leads_to(written: Report) -> None:
    (facts,) = re.findall(r'id="facts">(.*)</script>', text(written, "case.html"))
    count = json.loads(facts)["chunks"]
    named = [
        (row["target"], row["case"], at)
        for at, chunk in enumerate(chunks(written))
        for row in chunk["cases"]
    ]
    assert len(named) == written.pages == 16
    assert all(chunk_of(target, case, count) == at for target, case, at in named)
    links = {row.page for row in written.model.cases}
    assert links == {case_link("", target, case, several=False) for target, case, _ in named}


def test_what_did_not_pass_is_shown_without_a_script(written: Report) -> None:
    found = text(written, "findings.html")
    expected = ["FAIL", "ERROR", "INCONCLUSIVE", "KNOWN", "WARN", "SKIP"]
    assert re.findall(r"<h2>(\w+)", found) == expected
    failing = found[found.index("<h2>FAIL") : found.index("<h2>ERROR")]
    for part in ("ARTEMIS-STOMP-ttl-3", "closed after 9000 ms", "<dt>required</dt>"):
        assert part in failing
    assert "the target has no selectors" in found


def test_where_the_page_of_a_failing_case_was_leads_to_it(written: Report) -> None:
    name = slug("2026-11-21T12-00-00", "artemis", FAILING)
    row = next(row for row in written.model.cases if row.verdict == "FAIL" and row.case == FAILING)
    moved = html.unescape(text(written, f"cases/{name}.html"))
    assert f'content="0; url=../{row.page}"' in moved
    passing = {row.case for row in written.model.cases if row.verdict == "PASS"}
    assert not [case for case in passing if slug("2026-11-21T12-00-00", "reference", case) in moved]


_SCRIPT = re.compile(r"<script.*?</script>", re.DOTALL)


def test_no_link_leads_nowhere(written: Report) -> None:
    inside = {
        path: set(re.findall(r'href="([^"]+)"', _SCRIPT.sub("", path.read_text("utf-8"))))
        for path in written.folder.rglob("*.html")
    }
    for path, links in inside.items():
        for link in links:
            file, _, place = html.unescape(link).partition("#")
            if file.startswith(("https:", "http:", "data:")):
                continue
            led_to = (path.parent / file) if file else path
            assert led_to.is_file(), f"{path.name}: {link}"
            if place and "=" not in place:
                assert f'id="{place}"' in led_to.read_text("utf-8"), f"{path.name}: {link}"


def test_a_targets_page_has_what_is_documented_measured_and_skipped(written: Report) -> None:
    found = text(written, "targets/artemis.html")
    row = re.search(
        r'<tr><th scope="row" class="mono">connection_ttl_min_ms</th>(.*?)</tr>', found, re.DOTALL
    )
    assert row is not None
    assert re.findall(r"<td[^>]*>([^<]*)", row[1]) == ["1000", "900 … 950.5 ms", "", "bisected"]
    assert '<span class="v FAIL">no</span>' in row[1]
    assert "the target has no selectors" in found
    assert re.search(r">amqp091</th><td>not offered: &lt;manual&gt;, chapter AMQP</td>", found)
    assert 'href="../index.html#target=artemis&amp;verdict=FAIL">2</a>' in found
    assert "Nothing was measured" in text(written, "targets/reference.html")


def test_a_requirements_page_says_who_keeps_it(written: Report) -> None:
    found = text(written, "requirements/ARTEMIS-STOMP-ttl-3.html")
    rows = re.findall(
        r'<th scope="row"><a href="../targets/(\w+).html">.*?<span class="v (\w+)"', found
    )
    assert rows == [("reference", "PASS"), ("artemis", "FAIL")]
    assert "closed after 9000 ms" in found
    assert not (written.folder / "requirements" / "STOMP12-ENC-10.html").exists()


def test_a_page_can_be_contested_with_what_stands_on_it(written: Report) -> None:
    found = page(written, FAILING, "artemis")
    (entry,) = tomllib.loads(found["entry"])["deviation"]
    assert entry["requirement"] == "ARTEMIS-STOMP-ttl-3"
    assert re.search(entry["expected"], "closed after 9000 ms")
    assert entry["case"] == FAILING


def test_the_list_of_the_index_holds_every_case(written: Report) -> None:
    told = unpacked(written)
    assert len(told["verdict"]) == 16
    verdicts = [told["verdicts"][option] for option in told["verdict"]]
    assert verdicts == [row.verdict for row in written.model.cases]
    names = [told["names"][option] for option in told["name"]]
    assert names == [row.case for row in written.model.cases]
    ids = [[told["requirements"][at][0] for at in told["sets"][option]] for option in told["set"]]
    assert ids == [list(row.requirements) for row in written.model.cases]


@pytest.mark.parametrize("said", ["{", "{}", "[1]", '[{"value": 1}]'])
def test_what_was_inferred_must_be_what_infer_prints(tmp_path: Path, said: str) -> None:
    path = tmp_path / "inferred.json"
    path.write_text(said)
    with pytest.raises(UnreadableRun, match="it should be what `brokerproof infer --json` prints"):
        read_measured([f"artemis={path}"])


def test_the_worst_cases_stand_first(written: Report) -> None:
    expected = ["FAIL", "FAIL", "ERROR", "INCONCLUSIVE", "KNOWN", "WARN", "PASS"]
    assert [row.verdict for row in written.model.cases[:7]] == expected
    assert {row.verdict for row in written.model.cases[6:-1]} == {"PASS"}
    assert written.model.cases[-1].verdict == "SKIP"


def test_nothing_comes_from_a_network_and_nothing_of_the_wire_is_markup(written: Report) -> None:
    pages = sorted(written.folder.rglob("*.html"))
    assert {"index.html", "artemis.html", "ARTEMIS-STOMP-ttl-3.html"} <= {
        path.name for path in pages
    }
    for path in pages:
        found = path.read_text("utf-8")
        assert "default-src 'none'" in found
        assert "<script>alert" not in found
        assert "<b>no CONNECTED" not in found
        if path.parent.name == "requirements":
            for ours in (
                '<link rel="stylesheet" href="../style.css">',
                '<script src="../theme.js"></script>',
            ):
                assert ours in found
                found = found.replace(ours, "")
        assert not re.search(r"(src|srcset)=|<link|@import|url\((?!#)", found)
    assert not re.search(r"@import|url\((?!#)", (written.folder / "style.css").read_text("utf-8"))


def test_a_page_says_what_was_asked_expected_and_seen(written: Report) -> None:
    found = page(written, FAILING, "artemis")
    assert "stays silent is closed after its TTL, neither earlier nor later." in found["doc"][0]
    assert found["source"] == "suites/stomp/test_x.py:12"
    assert found["findings"][0][:2] == ["ARTEMIS-STOMP-ttl-3", "FAIL"]
    ((_, value, _, low, high, _),) = found["gauges"]
    assert (low, high, value) == (seconds(2), seconds(4), seconds(4) + 4_999_000_000)
    (part,) = found["parts"]
    assert sum(row["kind"] == "HeartBeatReceived" for row in part["rows"]) == 17
    frames = {row["command"]: row for row in part["rows"] if row["kind"] == "FrameReceived"}
    assert ["server", "<script>alert(1)</script>"] in frames["CONNECTED"]["headers"]
    assert frames["ERROR"]["body"].startswith("AMQ229014: no data\n\x00\xff<b>")
    assert found["again"] == (
        "brokerproof run --target artemis --case a_silent_connection_is_closed --effort normal"
        " --seed 123"
    )


def test_a_property_shows_its_failing_example_first_and_how_many_there_were(
    written: Report,
) -> None:
    found = page(written, "stomp.liveness.the_ttl_follows_the_arithmetic", "artemis")
    assert (len(found["parts"]), found["examples"]) == (3, 13)
    assert [part["rows"][0]["example"] for part in found["parts"]] == [12, 0, 1]
    assert found["unrecorded"] == 187  # the recording omits them


def test_a_skipped_case_says_why_nothing_crossed_the_wire(written: Report) -> None:
    found = page(written, "stomp.selectors.needs_selectors", "artemis")
    assert (found["verdict"], found["parts"]) == ("SKIP", [])
    assert found["detail"] == "the target has no selectors"


def test_the_matrix_has_the_worst_verdict_by_requirement(written: Report) -> None:
    cells = {
        row.words.id: [cell.verdict if cell else "" for cell in row.cells]
        for group in written.model.groups
        for row in group.rows
    }
    assert [column.target for column in written.model.columns] == ["reference", "artemis"]
    assert cells["ARTEMIS-STOMP-ttl-3"] == ["PASS", "FAIL"]
    assert cells["STOMP12-HB-04"] == ["PASS", "INCONCLUSIVE"]
    assert cells["NOWHERE-SPEC-01"] == ["PASS", "PASS"]
    assert written.model.groups[-1].source == ""


def test_what_no_case_judged_is_listed_by_source(written: Report) -> None:
    missing = {group.source: group for group in written.model.unjudged}
    ids = {words.id for words in missing["STOMP 1.2"].words}
    assert "STOMP12-FRAME-03" not in ids
    assert missing["STOMP 1.2"].missing == len(ids) > 10


def test_the_tables_are_written(written: Report) -> None:
    sizes = {
        path.stem: pq.read_table(path).num_rows for path in (written.folder / "tables").iterdir()
    }
    assert sizes["cases"] == 16
    assert sizes["counts"] == 8
    assert sizes["coverage"] > 200
    assert sizes["errors"] == 5
    assert sizes["liveness"] > 30
    assert sizes["measurements"] > 20
    assert sizes["frames"] > 400
    assert sizes["matrix"] == 16


DOCUMENTS = Path(__file__).resolve().parents[4] / "docs"
SHARED_COLUMNS = {"run", "target", "case", "part", "conn"}


def test_the_documents_name_every_table_and_every_column(written: Report) -> None:
    told = (DOCUMENTS / "reference" / "tables.md").read_text("utf-8").partition("## The trace")[0]
    documented = {
        name: set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", columns)))
        for name, columns in re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", told, re.MULTILINE)
    }
    folders = {path.stem: path for path in (written.folder / "tables").iterdir()}
    assert set(documented) == set(folders)
    for name, folder in folders.items():
        columns = set(pq.read_schema(next(folder.glob("*.parquet"))).names)
        assert documented[name] <= columns, (
            f"{name}: the documents tell of columns that are not there"
        )
        assert columns - documented[name] <= SHARED_COLUMNS, (
            f"{name}: columns that no document tells of"
        )


def test_the_notebook_asks_about_tables_that_there_are(written: Report) -> None:
    """suites/scale/notebook.py runs the notebook where DuckDB and Jupyter are installed."""
    notebook = json.loads((DOCUMENTS / "how-to" / "query-tables.ipynb").read_text("utf-8"))
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for line in code:
        ast.parse(line)
    asked = set(re.findall(r"(?:FROM|PIVOT) (\w+)\b(?!\()", "\n".join(code[1:])))
    assert {"cases", "addresses", "trace"} <= asked
    assert asked <= {path.stem for path in (written.folder / "tables").iterdir()} | {"trace"}
    assert not any(cell.get("outputs") for cell in notebook["cells"])


def test_the_first_screen_has_a_line_for_each_area_and_the_causes(written: Report) -> None:
    found = text(written)
    areas = {
        target: re.findall(
            r'<th scope="row"><a href="#[^"]+">([^<]+)</a></th><td><a class="v (\w+)"',
            found[start : start + 6000],
        )
        for target in ("reference", "artemis")
        if (start := found.index(f"Areas of the mission on {target}<"))
    }
    assert ("heartbeats and TTL", "FAIL") in areas["artemis"]
    # The run has only a few cases, so no area's core was judged.
    assert ("heartbeats and TTL", "NOTE") in areas["reference"]
    causes = found[found.index('id="causes"') : found.index('id="cases"')]
    assert re.findall(r'<h3><span class="v (\w+)"', causes) == ["FAIL", "FAIL", "ERROR"]
    assert "closed after 9000 ms" in causes
    assert (
        "<title>reference, artemis: 2 FAIL, 1 ERROR, 1 INCONCLUSIVE · brokerproof</title>" in found
    )
    # In the target's box, below the row of the area: requirement, observation, case.
    box = found[found.index("Areas of the mission on artemis<") : found.index('id="causes"')]
    row = box[box.index('class="worst"') :].partition("</tr>")[0]
    assert "A client that promised a beat and stays silent is closed after its TTL" in row
    assert "observed</span> closed after 9000 ms</div>" in row
    link = re.search(r'<a class="v FAIL" href="#([^"]+)">broken</a>', box)
    assert link is not None
    assert f'<div class="cause" id="{link[1]}">' in causes


def test_a_sheet_says_what_was_required_and_how_to_repeat_it(written: Report) -> None:
    sheet = text(written, "summary.html")
    row = sheet[sheet.index("ARTEMIS-STOMP-ttl-3") :].partition("</tr>")[0]
    assert "observed closed after 9000 ms" in row
    assert "stomp.liveness.a_silent_connection_is_closed" in row.replace("<wbr>", "")
    assert "brokerproof run --target artemis --case a_silent_connection_is_closed" in row


def test_the_list_knows_the_area_of_each_requirement(written: Report) -> None:
    told = unpacked(written)
    areas = {row[0]: told["areas"][row[4]] for row in told["requirements"]}
    assert areas["ARTEMIS-STOMP-ttl-3"] == "heartbeats and TTL"
    assert areas["ARTEMIS-STOMP-window-2"] == "windows and credit"
    assert '<select id="area"><option value="">all</option><option>heartbeats and TTL' in text(
        written
    )


def test_every_recording_was_judged_again(written: Report) -> None:
    found = text(written)
    assert '<h2 id="again">' in found
    rows = pq.read_table(written.folder / "tables" / "again.parquet").to_pylist()
    assert {row["kind"] for row in rows} <= {"phantom", "silent", "closed late"}
    assert written.model.again.total == len(rows)


def test_junit_tells_failures_errors_and_skips_apart(written: Report) -> None:
    root = ElementTree.parse(written.folder / "junit.xml").getroot()
    suites = {suite.get("name"): suite for suite in root}
    assert suites["reference"].attrib | {"time": ""} == {
        "name": "reference",
        "tests": "8",
        "failures": "0",
        "errors": "0",
        "skipped": "0",
        "time": "",
        "timestamp": "2026-11-21T12:00:00+00:00",
    }
    artemis = suites["artemis"]
    counted = {key: artemis.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": "8", "failures": "2", "errors": "1", "skipped": "3"}
    assert len(artemis.findall("testcase/failure")) == 2
    expected = ["control failed: <b>no CONNECTED</b> within 5 s"]
    assert [element.get("message") for element in artemis.findall("testcase/error")] == expected
    skipped = sorted(str(element.get("message")) for element in artemis.findall("testcase/skipped"))
    assert [text.partition(":")[0] for text in skipped[:2]] == ["inconclusive", "known deviation"]
    for case in root.iter("testcase"):
        assert case.get("name")
        assert case.get("classname")
        assert float(case.get("time", "")) == 0.25
        assert case.findall("properties/property[@name='requirement']")
    assert len(list(root.iter("testcase"))) == 16


def test_ctrf_has_its_required_fields(written: Report) -> None:
    found = json.loads(text(written, "ctrf.json"))
    assert found["reportFormat"] == "CTRF"
    assert found["results"]["tool"]["name"] == "brokerproof"
    summary = found["results"]["summary"]
    assert {
        key: summary[key] for key in ("tests", "passed", "failed", "pending", "skipped", "other")
    } == {"tests": 16, "passed": 10, "failed": 3, "pending": 0, "skipped": 1, "other": 2}
    assert summary["stop"] - summary["start"] == 9000
    assert len(found["results"]["tests"]) == 16
    for test in found["results"]["tests"]:
        assert test["status"] in ("passed", "failed", "skipped", "pending", "other")
        assert isinstance(test["duration"], int)
        assert test["filePath"] == "suites/stomp/test_x.py"


def test_the_summary_and_the_badge(written: Report) -> None:
    found = text(written, "summary.md")
    assert "| target | cases | FAIL | ERROR | INCONCLUSIVE | KNOWN | WARN | PASS | SKIP |" in found
    assert "| artemis | 8 | 2 | 1 | 1 | 1 | 1 | 1 | 1 |" in found
    assert r"control failed: \<b\>no CONNECTED\</b\> within 5 s" in found
    assert json.loads(text(written, "badge.json")) == {
        "schemaVersion": 1,
        "label": "brokerproof",
        "message": "1 error, 9 of 16 pass",
        "color": "9f4bd8",
    }


def test_a_requirement_that_every_case_skipped_has_no_page_and_no_link(
    spark: SparkSession, requirements: Requirements, tmp_path: Path
) -> None:
    judged, skipped = "STOMP12-HB-02", "STOMP12-HB-04"
    write_header(tmp_path / "run", header("run"))
    outcomes = ((judged, Verdict.PASS), (judged, Verdict.SKIP), (skipped, Verdict.SKIP))
    for requirement, verdict in outcomes:
        findings = never_reached((requirement,), verdict, "")
        case = f"{requirement}.{verdict.lower()}"
        append(tmp_path / "run", Result(case, "reference", (requirement,), verdict, "", findings))
    found = build(
        SparkTasks(spark.sparkContext),
        open_runs([tmp_path / "run"]),
        tmp_path / "report",
        requirements,
    )
    pages = [path.stem for path in (found.folder / "requirements").iterdir()]
    assert pages == [judged]
    matrix = text(found)[text(found).index('id="matrix"') :]
    assert f'href="requirements/{judged}.html"' in matrix
    assert f'<td class="id mono soft">{skipped}</td>' in matrix
    listed = {row[0]: row[3] for row in unpacked(found)["requirements"]}
    assert listed == {judged: judged, skipped: ""}
    (chunk,) = chunks(found)
    assert {name: words[5] for name, words in chunk["words"].items()} == listed


def test_the_index_stays_small_and_says_what_it_leaves_out(
    spark: SparkSession, requirements: Requirements, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "INDEX_BYTES", 100_000)
    monkeypatch.setattr(case_data, "UNRECORDED_IN_TASK", 100)  # so there are four tasks
    write_header(tmp_path / "run", header("run"))
    noise = random.Random(1)
    lines = [
        Result(f"c{number}", "reference", (), Verdict.WARN, f"{noise.randbytes(120).hex()}").line()
        for number in range(400)
    ]
    (tmp_path / "run" / "results.ndjson").write_text("\n".join(lines) + "\n")
    found = build(
        SparkTasks(spark.sparkContext),
        open_runs([tmp_path / "run"]),
        tmp_path / "report",
        requirements,
        limits=Limits(findings=7),
    )
    assert len(text(found).encode()) <= 100_000
    assert re.search(r"The worst \d+ of 400 results", text(found))
    tests = ElementTree.parse(tmp_path / "report" / "junit.xml").getroot()
    assert len(list(tests.iter("testcase"))) == 400
    packed = chunks(found)
    assert (len(packed), found.pages) == (8, 400)
    assert sum(len(chunk["cases"]) for chunk in packed) == 400
    assert len(re.findall("<h3>", text(found, "findings.html"))) == 7
    assert "The worst 7 of 400" in text(found, "findings.html")
    assert len(list((tmp_path / "report" / "cases").glob("*.html"))) == 7
