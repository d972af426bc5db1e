"""``brokerproof diff`` as a command: its list and introduction, exit codes, one sentence for bad
input."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from brokerproof.harness.commands.cli import cli
from brokerproof.harness.commands.diff import diff, plain
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results.records import Result, append
from brokerproof.suites.units.drivers.synthetic_run import (
    TTL,
    header,
    held,
    judged_in,
    violated,
    write_header,
)

V = Verdict


def run(
    folder: Path,
    verdicts: dict[str, Verdict],
    *,
    target: str = "t",
    finished: bool = True,
    **more: Any,
) -> Path:
    write_header(folder, header(folder.name, targets=[target], finished=finished) | more)
    for case, verdict in verdicts.items():
        finding = violated(TTL, "late") if verdict is V.FAIL else held(TTL)
        append(
            folder,
            Result(
                case, target, (TTL,), verdict, f"{verdict} here", (judged_in(verdict, finding),)
            ),
        )
    return folder


def call(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(
        diff, [str(argument) for argument in arguments], standalone_mode=False
    )
    if result.exception is not None:
        code = getattr(result.exception, "exit_code", None)
        assert code is not None, result.exception
        return code, result.output, str(result.exception)
    assert isinstance(result.return_value, int)
    return result.return_value, result.stdout, result.stderr


def test_the_command_is_there() -> None:
    assert "Compare RUN_A with RUN_B" in CliRunner().invoke(cli, ["diff", "--help"]).output


def test_plain_lines_say_what_changed_and_both_details(tmp_path: Path) -> None:
    a = run(
        tmp_path / "a", {"c.same": V.PASS, "c.worse": V.PASS, "c.gone": V.PASS, "c.unclear": V.PASS}
    )
    b = run(
        tmp_path / "b",
        {"c.same": V.PASS, "c.worse": V.FAIL, "c.new": V.PASS, "c.unclear": V.INCONCLUSIVE},
    )
    code, out, _ = call(a, b)
    assert code == 1
    assert out.splitlines()[2:] == [
        (
            "cases: 1 added, 1 removed, 2 changed, 1 unchanged; of these 1 worse, 2 undecided, 0"
            " better, 0 late"
        ),
        "worse: t c.worse: PASS → FAIL (disconnect)",
        "    A: PASS here",
        "    B: FAIL here",
        "undecided: t c.unclear: PASS → INCONCLUSIVE",
        "    A: PASS here",
        "    B: INCONCLUSIVE here",
        "removed: t c.gone: PASS → absent",
        "added: t c.new: absent → PASS",
        f"requirement worse: t {TTL}: PASS → FAIL (disconnect) (judged by other cases)",
    ]


def test_filters_change_what_is_listed_and_never_the_exit_code(tmp_path: Path) -> None:
    a = run(tmp_path / "a", {"c.worse": V.PASS, "c.better": V.FAIL, "c.warned": V.PASS})
    b = run(tmp_path / "b", {"c.worse": V.FAIL, "c.better": V.PASS, "c.warned": V.WARN})
    listed = {}
    for option in ((), ("--regressions",), ("--only-failing-in", "A"), ("--only-failing-in", "B")):
        code, out, _ = call(a, b, "--json", *option)
        assert code == 1
        listed[option] = [row["case"] for row in json.loads(out)["cases"]]
    assert listed == {
        (): ["c.worse", "c.warned", "c.better"],
        ("--regressions",): ["c.worse", "c.warned"],
        ("--only-failing-in", "A"): ["c.better"],
        ("--only-failing-in", "B"): ["c.worse"],
    }


def test_json_has_both_sides_of_every_difference(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", {"c": V.PASS}), run(tmp_path / "b", {})
    append(b, Result("c", "t", (), V.PASS, "first"))
    append(b, Result("c", "t", (), V.FAIL, "again", attempts=3))
    found = json.loads(call(a, b, "--json")[1])
    (only,) = found["cases"]
    assert only["a"] == {"verdict": "PASS", "detail": "PASS here", "attempts": 1, "earlier": []}
    assert only["b"] == {"verdict": "FAIL", "detail": "again", "attempts": 3, "earlier": ["PASS"]}
    assert only["kind"] == "CHANGED"
    assert only["course"] == "WORSE"
    assert only["unsteady"] is True
    assert only["only"] == "B"
    assert found["counts"]["unsteady"] == 1
    assert found["exit_code"] == 1
    assert "unsteady: B needed 3 attempts; B said PASS before" in call(a, b)[1]


def test_nothing_worse_is_exit_0_and_nothing_certain_is_exit_2(tmp_path: Path) -> None:
    a = run(tmp_path / "a", {"c": V.FAIL, "d": V.PASS})
    better = run(tmp_path / "better", {"c": V.PASS, "d": V.PASS})
    unclear = run(tmp_path / "unclear", {"c": V.INCONCLUSIVE, "d": V.PASS})
    assert call(a, better)[0] == 0
    assert call(a, unclear)[0] == 2


def test_a_run_that_was_cut_off_and_a_torn_line_are_said_and_prove_nothing(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", {"c": V.PASS}), run(tmp_path / "b", {"c": V.PASS}, finished=False)
    with (b / "results.ndjson").open("a") as file:
        file.write('{"case":"d","tar')
    code, out, _ = call(a, b)
    assert code == 2
    assert "note: B was cut off before it ended" in out
    assert "note: the last line of B's results is incomplete" in out
    assert "1 unchanged" in out


def test_what_was_not_alike_is_said(tmp_path: Path) -> None:
    a = run(tmp_path / "a", {"c": V.PASS})
    b = run(
        tmp_path / "b",
        {"c": V.PASS},
        seed=7,
        effort="deep",
        brokerproof="0.2.0",
        fingerprint="of another version",
    )
    values = json.loads((b / "run.json").read_text())
    values["targets"][0]["version"] = "0.2.0"
    (b / "run.json").write_text(json.dumps(values))
    assert json.loads(call(a, b, "--json")[1])["notes"] == [
        "different seeds: A 123, B 7",
        "different efforts: A normal, B deep",
        "different versions of brokerproof: A 0.1.0, B 0.2.0",
        "t: different versions: A 0.1.0, B 0.2.0",
    ]


def test_two_brokers_are_compared_across(tmp_path: Path) -> None:
    a, b = (
        run(tmp_path / "a", {"c": V.PASS}, target="x"),
        run(tmp_path / "b", {"c": V.FAIL}, target="y"),
    )
    code, out, _ = call(a, b)
    assert code == 2
    assert "note: no target is in both runs; --between-brokers compares two targets by case" in out
    code, out, _ = call(a, b, "--between-brokers", "--only-failing-in", "B")
    assert code == 1
    assert "violated on B and kept on the other: 1" in out
    assert "worse: x / y c: PASS → FAIL" in out


def test_only_what_judges_both_brokers_is_compared_where_asked(tmp_path: Path) -> None:
    a = run(tmp_path / "a", {"c": V.PASS, "d": V.PASS, "e": V.PASS}, target="x")
    b = run(tmp_path / "b", {"c": V.PASS, "d": V.FAIL}, target="y")
    spared = replace(held(TTL), seen=Seen.NOT_APPLICABLE)
    append(b, Result("e", "y", (), V.NOTE, "", (judged_in(V.NOTE, spared),)))
    append(a, Result("only", "x", (TTL,), V.PASS, "", (judged_in(V.PASS, held(TTL)),)))
    append(b, Result("only", "y", (), V.SKIP, "no paging"))
    _, out, _ = call(a, b, "--between-brokers")
    assert {line.split(":")[0] for line in out.splitlines() if " / y" in line} >= {"undecided"}
    code, out, _ = call(a, b, "--between-brokers", "--judged-in-both")
    assert code == 1
    assert "cases: 0 added, 0 removed, 1 changed, 1 unchanged" in out


@pytest.mark.parametrize("chosen", [(), ("--target-a", "artemis@2.44.0")])
def test_releases_of_a_broker_are_the_same_target(tmp_path: Path, chosen: tuple[str, ...]) -> None:
    a = run(tmp_path / "a", {"c": V.PASS, "d": V.PASS}, target="artemis@2.44.0")
    b = run(tmp_path / "b", {"c": V.FAIL, "d": V.PASS}, target="artemis@2.56.0")
    code, out, _ = call(a, b, *chosen)
    assert code == 1
    assert "worse: artemis@2.56.0 c: PASS → FAIL" in out
    assert f"A: {a}, started" in out
    assert "artemis@2.44.0" in out.splitlines()[0]
    assert "cases: 0 added, 0 removed, 1 changed, 1 unchanged" in out


def test_a_target_that_is_in_one_run_only_is_said(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", {"c": V.PASS}), run(tmp_path / "b", {"c": V.PASS})
    append(b, Result("c", "u", (), V.PASS, ""))
    code, out, _ = call(a, b)
    assert code == 0
    assert "note: only in B: u" in out


def test_two_targets_of_one_run_are_compared_when_they_are_named(tmp_path: Path) -> None:
    write_header(tmp_path, header("r", targets=["x", "y"]))
    append(tmp_path, Result("c", "x", (), V.PASS, ""))
    append(tmp_path, Result("c", "y", (), V.FAIL, ""))
    code, _, said = call(tmp_path, tmp_path, "--between-brokers")
    assert code == 4
    assert "--between-brokers compares one target with another" in said
    assert "has x, y; choose with --target-a NAME" in said
    for option in ("--between-brokers", "--across"):  # the older name still works
        assert call(tmp_path, tmp_path, option, "--target-a", "x", "--target-b", "y")[0] == 1
        assert call(tmp_path, tmp_path, option, "--target-a", "y", "--target-b", "x")[0] == 0


@pytest.mark.parametrize("broken", ["no run", "no header", "no result", "no such target", "twice"])
def test_bad_input_is_refused_in_one_sentence(tmp_path: Path, broken: str) -> None:
    a = run(tmp_path / "a", {"c": V.PASS})
    b = tmp_path / "b"
    arguments: tuple[str | Path, ...] = (a, b)
    if broken == "no run":
        words = "should be a run folder"
    elif broken == "no header":
        b.mkdir()
        (b / "run.json").write_text("{")
        words = "is not the header of a run"
    elif broken == "no result":
        run(b, {})
        (b / "results.ndjson").write_text('{"case":1}\n')
        words = "results.ndjson, line 1: is not a result"
    elif broken == "no such target":
        run(b, {})
        arguments, words = (a, b, "--target-b", "u"), "has no target u; it has t"
    else:
        arguments, words = (a, a), "was given twice"
    code, out, said = call(*arguments)
    assert (code, out) == (4, "")
    assert words in said
    assert "\n" not in said


def test_what_a_broker_sent_cannot_steer_the_terminal() -> None:
    found = plain("a\n b\x1b[31m\x07\ud800")
    assert found == "a b\N{REPLACEMENT CHARACTER}[31m" + 2 * "\N{REPLACEMENT CHARACTER}"


def test_a_terminal_gets_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    a, b = run(tmp_path / "a", {"c.one": V.PASS}), run(tmp_path / "b", {"c.one": V.FAIL})
    code, out, _ = call(a, b)
    assert code == 1
    assert "┃" in out
    assert "PASS → FAIL" in out
    assert "Requirements" in out


def test_a_narrow_terminal_gets_whole_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    a, b = run(tmp_path / "a", {"c.one": V.PASS}), run(tmp_path / "b", {"c.one": V.INCONCLUSIVE})
    _, out, _ = call(a, b)
    assert "┃" in out
    assert "…" not in out


def changed(tmp_path: Path) -> tuple[Path, Path]:
    """Return two runs: one case got worse, one got better, one is undecided, one is unchanged."""
    before = {"s.worse": V.PASS, "s.better": V.FAIL, "s.open": V.PASS, "s.same": V.PASS}
    after = {"s.worse": V.FAIL, "s.better": V.PASS, "s.open": V.INCONCLUSIVE, "s.same": V.PASS}
    return run(tmp_path / "a", before), run(tmp_path / "b", after)


def test_markdown_has_a_table_for_each_course(tmp_path: Path) -> None:
    code, out, _ = call(*changed(tmp_path), "--format", "markdown")
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == "## brokerproof: 1 worse, 1 undecided, 1 better"
    assert "| `s.worse` | t | PASS → FAIL (disconnect) | FAIL here |" in lines
    assert "s.same" not in out


def test_junit_has_every_case_and_its_counts(tmp_path: Path) -> None:
    code, out, _ = call(*changed(tmp_path), "--format", "junit")
    assert code == 1
    suite = ElementTree.fromstring(out).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "1")
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases == {"s.worse": ["failure"], "s.open": ["skipped"], "s.better": [], "s.same": []}


def test_github_gets_an_error_for_what_got_worse(tmp_path: Path) -> None:
    _, out, _ = call(*changed(tmp_path), "--format", "github")
    assert out.splitlines() == [
        "::error title=t s.worse%3A PASS → FAIL (disconnect)::FAIL here",
        "::warning title=t s.open%3A PASS → INCONCLUSIVE::INCONCLUSIVE here",
    ]


def test_what_a_broker_sent_breaks_no_format(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", {"s.a": V.PASS}), run(tmp_path / "b", {})
    hostile = "100%\n::error::x | `<b>` \x00 ]]> \x1b[31m"
    finding = judged_in(V.FAIL, violated(TTL, hostile))
    append(b, Result("s.a", "t", (TTL,), V.FAIL, hostile, (finding,)))
    _, page, _ = call(a, b, "--format", "markdown")
    [row] = [line for line in page.splitlines() if "s.a" in line]
    assert row.count("|") - row.count("\\|") == 5
    _, xml, _ = call(a, b, "--format", "junit")
    ElementTree.fromstring(xml)
    _, annotations, _ = call(a, b, "--format", "github")
    assert len(annotations.splitlines()) == 1
    assert "100%25" in annotations
