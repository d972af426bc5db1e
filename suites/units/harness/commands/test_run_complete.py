"""A run in which some cases have no result is invalid: readers would mistake its verdicts for
verdicts on all cases."""

from pathlib import Path

import pytest

from brokerproof.harness.commands import errors, judging
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets import target_file


def result(case: str, target: str = "reference") -> Result:
    return Result(case, target, ("STOMP12-RCPT-01",), Verdict.PASS, "it held", (), {}, 1, 0.1, "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run_folder.create(tmp_path / "run", command=[], seed=1, effort="smoke")
    run_folder.add_cases(
        tmp_path / "run", {name: {"doc": "", "requirements": []} for name in ("a.b", "a.c")}
    )
    return tmp_path / "run"


def test_a_run_with_a_result_for_each_case_is_complete(folder: Path) -> None:
    for name in ("a.b", "a.c"):
        records.append(folder, result(name))
    judging._complete(target_file.load("reference"), folder)


def test_cases_without_a_result_are_told(folder: Path) -> None:
    records.append(folder, result("a.b"))
    records.append(folder, result("a.c", "artemis"))
    with pytest.raises(
        errors.Ours, match=r"judging reference ended early: 1 cases have no result, a\.c first"
    ):
        judging._complete(target_file.load("reference"), folder)
