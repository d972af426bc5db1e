"""The suites, judged by what they detect: every mutant is killed, the controls behave, and the
lists are accurate."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pamqp import commands

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.verdict import verdict_for, with_verdict
from brokerproof.harness.targets import target_file
from brokerproof.reference_broker.protocols.amqp091.channel import HANDLERS
from brokerproof.reference_broker.protocols.amqp091.errors import NOT_IMPLEMENTED, Refusal
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.suites.mutation import all_mutants, controls, matrix, report, survivors
from brokerproof.suites.mutation.command import mutants
from brokerproof.suites.mutation.judging import NOTED, Status, beside_the_point, kills
from brokerproof.suites.mutation.matrix import Extent, Fate, Plan
from brokerproof.suites.mutation.mutant import Mutant, Patch, Reached

CATALOGUE = requirements.load()
QUICK = Plan(extent=Extent.FIRST)


# --- the matrix -----------------------------------------------------------------------------------


# The controls are the longest tests. If tests are spread over processes, none of the controls
# should be left running alone at the end. A silent broker must pass no case, so it meets every
# case. The suites themselves show that the broker without a fault passes everything. A sample of
# the cases shows that the patches change nothing, and `brokerproof mutants` runs all cases.
@pytest.mark.parametrize(
    ("name", "every"),
    [(controls.IDENTITY, 7), (controls.LATE, 1), (controls.ALWAYS_WRONG, 7), (controls.MUTE, 1)],
)
def test_the_controls_behave(name: str, every: int) -> None:
    assert not controls.complaints({name: matrix.verdicts(name, QUICK, every)})


def test_every_control_is_tried() -> None:
    assert set(all_mutants.CONTROLS) == {
        controls.IDENTITY,
        controls.LATE,
        controls.ALWAYS_WRONG,
        controls.MUTE,
    }


@pytest.mark.parametrize("name", list(all_mutants.MUTANTS))
def test_every_mutant_is_killed_or_listed_as_a_survivor(name: str) -> None:
    listed = {
        mutant_name: reason
        for mutant_name, reason in survivors.load().items()
        if mutant_name == name
    }
    wrong = survivors.complaints([matrix.judge(name, QUICK)], listed, all_mutants.MUTANTS)
    assert not wrong, "\n".join(
        [*wrong, "strengthen the suites; only what cannot be seen goes on survivors.txt"]
    )


def test_a_matrix_can_be_repeated_here_and_in_other_processes() -> None:
    names, plan = ["windows.one-more-at-zero", "receipts.with-a-body"], Plan(seed=5)
    here, elsewhere = ([*matrix.judge_all(names, plan, processes=number)] for number in (1, 2))
    assert [fate.mutant for fate in here] == names
    assert [replace(fate, seconds=0) for fate in here] == [
        replace(fate, seconds=0) for fate in elsewhere
    ]


def test_a_fault_in_a_mutant_itself_is_an_error_and_no_kill(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = Mutant("broken", "broken", "The mutant crashes.", ("STOMP12-HDR-17",), "", _crash)
    monkeypatch.setitem(all_mutants.MUTANTS, "broken", broken)
    monkeypatch.setattr(
        matrix, "all_calls", lambda: [call for call in all_calls() if "any_value" in call.id]
    )
    fate = matrix.judge("broken", QUICK)
    assert fate.status is Status.ERROR
    assert "the mutant itself" in fate.errors[0]


def test_a_mutant_that_only_a_control_notices_is_noticed_and_not_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = Mutant("silent", "s", "Nothing is confirmed.", ("STOMP12-HDR-17",), "", _silence)
    monkeypatch.setitem(all_mutants.MUTANTS, "silent", silent)
    calls = [call for call in all_calls() if "any_value" in call.id]
    calls = [call for call in calls if not call.id.startswith("stomp.receipts.")]
    monkeypatch.setattr(matrix, "all_calls", lambda: calls)
    fate = matrix.judge("silent", QUICK)
    assert fate.status is Status.NOTICED
    assert "precondition not met: expected RECEIPT" in fate.noticed_by[0]
    (complaint,) = survivors.complaints([fate], {}, ["silent"])
    assert complaint.startswith("silent was not killed (noticed)")
    data = report.as_data([fate], QUICK, cases=1, version="", controls={}, listed={})
    assert (data["killed"], data["noticed"]) == (0, 1)


@pytest.mark.parametrize(
    ("case", "requirement", "original"),
    [
        ("a_receipt_confirms_all_frames", "STOMP12-RCPT-03", "reference"),
        ("any_octet_is_a_sign_of_life", "AMQP091-HB-05", "reference-rabbitmq"),
    ],
)
def test_what_is_missing_elsewhere_is_not_charged_to_the_rule(
    case: str, requirement: str, original: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lame = Mutant("lame", "l", "It lacks things.", (requirement,), "", _lame, original)
    monkeypatch.setitem(all_mutants.MUTANTS, "lame", lame)
    calls = [call for call in all_calls() if case in call.id]
    monkeypatch.setattr(matrix, "all_calls", lambda: calls)
    assert matrix.judge("lame", QUICK).status is not Status.KILLED


def _lame(patch: Patch, reached: Reached) -> None:
    """Send only the first receipt, and refuse channel.flow."""
    receipts = count()

    @patch.override(FrameEncoder)
    def receipt(original: Any, self: FrameEncoder, receipt: str) -> bytes:
        reached()
        return b"" if next(receipts) else original(self, receipt)

    @patch.override(HANDLERS, commands.Channel.Flow)
    def flow(*_: object) -> None:
        reached()
        raise Refusal(NOT_IMPLEMENTED, "flow")


def _silence(patch: Patch, reached: Reached) -> None:
    @patch.override(FrameEncoder)
    def receipt(original: object, self: FrameEncoder, receipt: str) -> bytes:
        reached()
        return b""


def _crash(patch: Patch, reached: Reached) -> None:
    def encode(original: object, *arguments: object) -> None:
        reached()
        raise RuntimeError("the mutant itself")

    patch.override(FrameEncoder, "__init__")(encode)


# --- the rule by which a mutant counts as killed --------------------------------------------------

MUST, SHOULD, MAY = "STOMP12-HDR-17", "STOMP12-ERR-03", "STOMP12-ERR-04"
BREAKS_ALL = Mutant("m", "g", "A fault.", (MUST, SHOULD, MAY), "", lambda patch, reached: None)


def result_of(verdict: Verdict, *findings: Finding) -> Result:
    judged = tuple(
        with_verdict(
            finding,
            verdict
            if verdict is Verdict.ERROR
            else verdict_for(CATALOGUE.find(finding.requirement).level, finding),
        )
        for finding in findings
    )
    cited = tuple(finding.requirement for finding in findings)
    return Result("case", "target", cited, verdict, "", judged)


@pytest.mark.parametrize(
    ("verdict", "finding", "reached", "killed"),
    [
        (Verdict.FAIL, Finding(MUST, Seen.VIOLATED, "so"), 1, True),
        (Verdict.WARN, Finding(SHOULD, Seen.VIOLATED, "so"), 1, True),
        (Verdict.NOTE, Finding(MAY, Seen.VIOLATED, "so"), 1, False),
        (Verdict.FAIL, Finding(MAY, Seen.VIOLATED, "so"), 1, False),
        (Verdict.FAIL, Finding(MUST, Seen.VIOLATED, "so"), 0, False),
        (Verdict.ERROR, Finding(MUST, Seen.VIOLATED, "so"), 1, False),
        (Verdict.INCONCLUSIVE, Finding(SHOULD, Seen.VIOLATED, "so"), 1, True),
        (Verdict.INCONCLUSIVE, Finding(MUST, Seen.VIOLATED, "so", uncertain="late host"), 1, False),
        (Verdict.FAIL, Finding(MUST, Seen.VIOLATED, "so", uncertain="late host"), 1, False),
        (Verdict.PASS, Finding(MUST, Seen.HELD, "so"), 1, False),
    ],
)
def test_what_kills(verdict: Verdict, finding: Finding, reached: int, killed: bool) -> None:
    assert bool(kills(BREAKS_ALL, result_of(verdict, finding), reached, CATALOGUE)) is killed


def test_a_case_that_fails_for_something_else_kills_nothing() -> None:
    other = Finding("STOMP12-MSG-03", Seen.VIOLATED, "so")
    result = result_of(Verdict.FAIL, other, Finding(MUST, Seen.HELD, "so"))
    assert not kills(BREAKS_ALL, result, 1, CATALOGUE)
    found = [finding.requirement for finding in beside_the_point(BREAKS_ALL, result, 1, CATALOGUE)]
    assert found == ["STOMP12-MSG-03"]


# --- the list of survivors ------------------------------------------------------------------------


def test_the_list_of_survivors_only_shrinks() -> None:
    fates = [
        Fate("a", Status.SURVIVED),
        Fate("b", Status.KILLED, killed_by=[]),
        Fate("c", Status.SURVIVED),
    ]
    fates[1].killed_by = kills(
        BREAKS_ALL, result_of(Verdict.FAIL, Finding(MUST, Seen.VIOLATED, "so")), 1, CATALOGUE
    )
    problems = survivors.complaints(
        fates, {"a": "it cannot be seen", "b": "nor this", "d": "gone"}, ["a", "b", "c"]
    )
    assert [sentence.split()[0] for sentence in problems] == ["survivors.txt", "b", "c"]


@pytest.mark.parametrize(
    ("text", "words"),
    [("name\n", "NAME: REASON"), ("name:\n", "REASON"), ("a: b\na: c\n", "twice")],
)
def test_a_bad_list_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "survivors.txt"
    path.write_text(text)
    with pytest.raises(survivors.BadList, match=words):
        survivors.load(path)


# --- as targets and as a command ------------------------------------------------------------------


def test_a_mutant_is_a_target_like_any() -> None:
    target = target_file.load("mutant:ttl.modifier-forgotten")
    assert target.identity.name == "mutant-ttl.modifier-forgotten"
    with pytest.raises(
        target_file.BadTarget,
        match=r"no mutant 'ttl\.modifier-forgot'; perhaps ttl\.modifier-forgotten",
    ):
        target_file.load("mutant:ttl.modifier-forgot")


def test_the_calls_are_those_that_pytest_makes(tmp_path: Path) -> None:
    home = Path(__file__).parents[1]
    folder = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        home / "conformance.ini",
        "--rootdir",
        home,
        "-q",
        "--collect-only",
    ]
    folders = sorted({str(home / call.case.suite) for call in all_calls()})
    subprocess.run(
        [*command, "-p", "no:cacheprovider", "--brokerproof-record", folder, *folders],
        check=True,
        capture_output=True,
    )
    collected = json.loads((folder / "cases.json").read_text("utf-8"))
    assert sorted(collected) == [call.id for call in all_calls()]


def test_the_command_writes_the_matrix(tmp_path: Path) -> None:
    name = "receipts.with-a-body"
    ran = CliRunner().invoke(
        mutants, ["--mutant", name, "--out", str(tmp_path), "--json"], standalone_mode=False
    )
    assert ran.return_value == 0, ran.output
    data = json.loads((tmp_path / "mutants.json").read_text("utf-8"))
    assert data["killed"] == 1
    assert data["mutants"][0]["killed_by"][0]["requirement"] in all_mutants.named(name).breaks
    assert data["requirements"]["STOMP10-RECEIPT-03"] == {name: "●"}


def test_the_command_names_what_cases_cite_and_no_mutant_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = all_mutants.named("receipts.with-a-body")
    monkeypatch.setattr(all_mutants, "MUTANTS", {alone.name: alone})
    ran = CliRunner().invoke(mutants, ["--unbroken", "--json"], standalone_mode=False)
    assert ran.return_value == 0, ran.output
    by_requirement = {load["requirement"]: load for load in json.loads(ran.stdout)}
    cited = {
        requirement
        for call in all_calls()
        for requirement in call.cited
        if CATALOGUE.find(requirement).level not in NOTED
    }
    assert by_requirement.keys() == cited - set(alone.breaks)
    assert by_requirement["STOMP12-HB-09"]["level"] == "MUST"
    assert any(
        case.startswith("stomp.heart_beats.") for case in by_requirement["STOMP12-HB-09"]["cases"]
    )


def test_the_command_refuses_a_mutant_that_it_does_not_know() -> None:
    ran = CliRunner().invoke(mutants, ["--mutant", "receipts.with-a-bod"])
    assert ran.exit_code == 4
    assert "perhaps receipts.with-a-body" in ran.output
