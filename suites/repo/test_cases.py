"""Rules for conformance cases: ids are written out where they are judged, and docstrings state the
stimulus and the expected answer."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache

import pytest

from brokerproof.harness.cases.case import Case, registry
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.catalogue.cases import import_suites
from brokerproof.suites.repo.sources import ROOT, modules

FOLDERS = (
    "suites/amqp091/",
    "suites/amqp10/",
    "suites/clients/",
    "suites/conversion/",
    "suites/delivery/",
    "suites/flow/",
    "suites/openwire/",
    "suites/steps/",
    "suites/stomp/",
)
MOST_IDS = 3
ONE_SCENARIO = "one scenario"
"""A case may judge more requirements of one version if its docstring says why it is one, with these
words."""

RIDDLE = re.compile(r"(What|Whether|Who|The same)\b")


def conformance_files() -> list[str]:
    """Paths of the modules that hold cases or the steps of several cases."""
    return [path for path in modules() if path.startswith(FOLDERS)]


@cache
def cases() -> list[Case]:
    """Every registered case, in order of its name."""
    import_suites()
    return [registry()[name] for name in sorted(registry())]


@cache
def id_start() -> re.Pattern[str]:
    """Match the beginning of a requirement id."""
    prefixes = {document.prefix for document in requirements.load().documents}
    return re.compile("|".join(f"{re.escape(prefix)}-" for prefix in sorted(prefixes)))


def positional_citations(source: str) -> list[int]:
    """Return the lines that take ``cited`` apart by position."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Assign(targets=[ast.Tuple() | ast.List()], value=value):
                taken_apart = value
            case ast.Subscript(value=value):
                taken_apart = value
            case _:
                continue
        if isinstance(taken_apart, ast.Attribute) and taken_apart.attr == "cited":
            lines.append(node.lineno)
    return lines


def assembled_ids(source: str) -> list[int]:
    """Return the lines that build a requirement id from parts."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.JoinedStr(values=[ast.Constant(value=str(start)), *_]):
                pass
            case ast.BinOp(left=ast.Constant(value=str(start)), op=ast.Add() | ast.Mod()):
                pass
            case _:
                continue
        if id_start().match(start) and " " not in start:
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize(
    "rule", [positional_citations, assembled_ids], ids=lambda rule: rule.__name__
)
def test_requirement_ids_are_named_where_they_are_judged(
    rule: Callable[[str], list[int]],
) -> None:
    wrong = [
        f"{path}:{line}"
        for path in conformance_files()
        for line in rule((ROOT / path).read_text("utf-8"))
    ]
    assert not wrong, (
        f"{', '.join(wrong)}: give each requirement a module constant whose value is the id written"
        " out, cite it in @case and judge by it"
    )


def test_docstrings_state_stimulus_and_answer() -> None:
    wrong = [
        f"{case.source} {case.name}" for case in cases() if not case.doc or RIDDLE.match(case.doc)
    ]
    assert not wrong, (
        f"{'; '.join(wrong)}: say what is sent and what must be answered, one sentence each"
    )


def test_a_case_judges_few_requirements() -> None:
    wrong = [
        f"{case.source} {case.name}"
        for case in cases()
        if max(map(len, case.by_version.values())) > MOST_IDS
        and ONE_SCENARIO not in " ".join(case.doc.split()).lower()
    ]
    assert not wrong, (
        f"{'; '.join(wrong)}: split it, or say in the docstring why it is one scenario"
    )


def test_the_rules_find_what_they_forbid() -> None:
    assert positional_citations("(proves,) = target.cited\nx = target.cited[0]") == [1, 2]
    assert not positional_citations("expect(proves=target.cited)")
    assert assembled_ids('f"STOMP12-ACK-{n}"\n"STOMP12-" + n\n"STOMP12-ACK-01"') == [1, 2]
    assert RIDDLE.match("Whether an ACK counts.")
