"""Mutants are declared completely: their names, what they break, and the page of historical
bugs."""

import re
from pathlib import Path

import pytest

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.catalogue import requirements
from brokerproof.suites.mutation import all_mutants, survivors
from brokerproof.suites.mutation.judging import NOTED

CATALOGUE = requirements.load()


def test_names_are_unique() -> None:
    assert len(all_mutants.MUTANTS) == sum(len(group.mutants) for group in all_mutants.GROUPS)


def test_mutants_say_what_they_break() -> None:
    cited = {requirement for call in all_calls() for requirement in call.cited}
    wrong = []
    for mutant in all_mutants.MUTANTS.values():
        if not mutant.fault.endswith("."):
            wrong.append(f"{mutant.name}: its docstring should be the fault in a sentence")
        if not {CATALOGUE.find(requirement).level for requirement in mutant.breaks} - set(NOTED):
            wrong.append(f"{mutant.name} breaks nothing that a broker must or should do")
        if not cited & set(mutant.breaks):
            wrong.append(f"{mutant.name}: no case cites any of {', '.join(mutant.breaks)}")
    assert not wrong, "; ".join(wrong)


def test_every_historical_bug_that_is_re_created_has_its_line() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "historical_bugs.md"
    if not page.is_file():
        pytest.skip("no checkout: the wheel has no docs")
    table = page.read_text("utf-8").partition("\n## ")[0]
    rows = set(re.findall(r"^\* ([^`]+), `([a-z0-9.-]+)`:", table, re.MULTILINE))
    assert {
        (mutant.recreates, mutant.name)
        for mutant in all_mutants.MUTANTS.values()
        if mutant.recreates
    } == rows


def test_only_mutants_are_listed_as_survivors() -> None:
    assert not survivors.complaints([], survivors.load(), all_mutants.MUTANTS)
