"""Rules for conformance cases: ids are written out where they are judged, and docstrings state the
stimulus and the expected answer."""

import ast
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import brokerproof.suites.amqp10.test_idle_timeout as idle
from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.cases.case import Case, registry
from brokerproof.harness.cases.execution import execute
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.catalogue.cases import import_suites
from brokerproof.harness.model.time import seconds
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.session.real_time_order import durations
from brokerproof.harness.targets import target_file
from brokerproof.suites.repo.sources import ROOT, modules
from brokerproof.suites.units.drivers.executed_case import run_of

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
"""A case may judge more requirements of one version if its docstring uses these words to say
why."""

JUDGED_AT: dict[str | None, tuple[int, str]] = {
    "record_finding": (1, "held"),
    "require": (1, "held"),
    "record_held": (1, "evidence"),
    "control": (0, "held"),
}
"""Where each judging method of a bench takes its condition or evidence: position and keyword."""

RIDDLE = re.compile(r"(What|Whether|Who|The same)\b")


def conformance_files() -> list[str]:
    """Return the paths of the modules that contain cases or the steps that several cases share."""
    return [path for path in modules() if path.startswith(FOLDERS)]


@cache
def cases() -> list[Case]:
    """Return every registered case, in the order of the names."""
    import_suites()
    return [registry()[name] for name in sorted(registry())]


@cache
def id_start() -> re.Pattern[str]:
    prefixes = {document.prefix for document in requirements.load().documents}
    return re.compile("|".join(f"{re.escape(prefix)}-" for prefix in sorted(prefixes)))


def positional_citations(source: str) -> list[int]:
    """Return the lines that unpack ``cited`` by position."""
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


def held_without_evidence(source: str) -> list[int]:
    """Return the lines where a constant records a requirement as held or lets a control pass."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in JUDGED_AT:
                given = dict(enumerate(node.args)) | {
                    word.arg: word.value for word in node.keywords
                }
                position, keyword = JUDGED_AT[name]
                judged = given.get(position) or given.get(keyword)
                is_constant = isinstance(judged, ast.Constant)
                if is_constant and (name == "record_held" or judged.value is True):
                    lines.append(node.lineno)
    return lines


def test_no_requirement_holds_by_a_constant() -> None:
    wrong = [
        f"{path}:{line}"
        for path in modules()
        if not path.startswith("suites/units/")
        for line in held_without_evidence((ROOT / path).read_text("utf-8"))
    ]
    assert not wrong, (
        f"{', '.join(wrong)}: judge a condition by record_finding, give what was observed to"
        " record_held, or say by record_not_applicable why the sentence asks nothing here"
    )


@pytest.mark.parametrize(
    "rule", [positional_citations, assembled_ids], ids=lambda rule: rule.__name__
)
def test_requirement_ids_are_named_where_they_are_judged(rule: Callable[[str], list[int]]) -> None:
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
    assert held_without_evidence('t.record_finding(A, True, "so")\nt.require(A, held=True)') == [
        1,
        2,
    ]
    assert held_without_evidence('t.record_held(A, 1, "so")\nt.control(True, "")') == [1, 2]
    assert not held_without_evidence('t.record_finding(A, False, "not so")\nt.record_held(A, x)')
    assert not positional_citations("expect(proves=target.cited)")
    assert assembled_ids('f"STOMP12-ACK-{n}"\n"STOMP12-" + n\n"STOMP12-ACK-01"') == [1, 2]
    assert RIDDLE.match("Whether an ACK counts.")


JUDGES = ("record_finding", "require", "judge_duration", "judge_count")
JUDGED_BY = ("proves", "refuses", "answers", "closes")


def shared_judgements(source: str) -> dict[str, int]:
    """Return, by case, the number of its expressions that judge several requirements together."""
    shared: dict[str, int] = {}
    for function in ast.parse(source).body:
        if not isinstance(function, ast.FunctionDef) or not function.name.startswith("test_"):
            continue
        for call in ast.walk(function):
            if not isinstance(call, ast.Call):
                continue
            judged = [word.value for word in call.keywords if word.arg in JUDGED_BY]
            if isinstance(call.func, ast.Attribute) and call.func.attr in JUDGES and call.args:
                judged.append(call.args[0])
            count = sum(_names_several(value, function) for value in judged)
            if count:
                shared[function.name] = shared.get(function.name, 0) + count
    return shared


def _names_several(value: ast.expr, function: ast.FunctionDef) -> bool:
    """True if ``value`` (perhaps a variable of ``function``) may be several requirements."""
    match value:
        case ast.Tuple(elts=elements):
            return len(elements) > 1
        case ast.Attribute(attr=name):
            return name == "cited"
        case ast.Call(func=ast.Name(id=name)):
            return name == "tuple"
        case ast.BoolOp(values=values):
            return any(_names_several(each, function) for each in values)
        case ast.IfExp(body=first, orelse=second):
            return any(_names_several(each, function) for each in (first, second))
        case ast.Name(id=name):
            return any(
                _names_several(step.value, function)
                for step in ast.walk(function)
                if isinstance(step, ast.Assign)
                and any(isinstance(to, ast.Name) and to.id == name for to in step.targets)
            )
    return False


SHARED_JUDGEMENTS = {
    "suites/amqp091/test_acknowledgements.py": 1,
    "suites/amqp091/test_bad_input.py": 1,
    "suites/amqp091/test_heart_beats.py": 1,
    "suites/amqp091/test_prefetch.py": 1,
    "suites/amqp10/test_consumers.py": 1,
    "suites/amqp10/test_framing.py": 4,
    "suites/amqp10/test_idle_timeout.py": 1,
    "suites/amqp10/test_link_errors.py": 2,
    "suites/amqp10/test_links.py": 2,
    "suites/amqp10/test_open_close.py": 3,
    "suites/amqp10/test_outcomes.py": 3,
    "suites/amqp10/test_sessions.py": 3,
    "suites/amqp10/test_tls.py": 9,
    "suites/amqp10/test_transactions.py": 4,
    "suites/amqp10/test_transfers.py": 4,
    "suites/clients/test_proton.py": 3,
    "suites/clients/test_proton_sockets.py": 3,
    "suites/conversion/test_bodies.py": 7,
    "suites/conversion/test_settlement.py": 2,
    "suites/delivery/test_long_lives.py": 1,
    "suites/delivery/test_routing.py": 1,
    "suites/flow/test_activemq_heart_beats.py": 2,
    "suites/flow/test_activemq_limits.py": 1,
    "suites/flow/test_activemq_openwire.py": 1,
    "suites/flow/test_address_full.py": 1,
    "suites/flow/test_alarms.py": 6,
    "suites/flow/test_alarms_stomp.py": 2,
    "suites/flow/test_limit_combinations.py": 2,
    "suites/flow/test_rabbitmq_connection_flow.py": 1,
    "suites/flow/test_rabbitmq_limits.py": 1,
    "suites/flow/test_ways_of_sending.py": 2,
    "suites/openwire/test_negotiation.py": 2,
    "suites/openwire/test_responses.py": 2,
    "suites/stomp/test_bodies.py": 10,
    "suites/stomp/test_connecting.py": 2,
    "suites/stomp/test_durable_subscriptions.py": 2,
    "suites/stomp/test_escapes.py": 1,
    "suites/stomp/test_headers.py": 2,
    "suites/stomp/test_message_frames.py": 1,
    "suites/stomp/test_negotiation.py": 1,
    "suites/stomp/test_receipts.py": 2,
    "suites/stomp/test_send.py": 1,
    "suites/stomp/test_tls.py": 3,
    "suites/stomp/test_transactions.py": 5,
    "suites/stomp/test_websocket.py": 4,
}
"""Expressions that judge several requirements by one fact, by file. This table only shrinks."""


def test_an_expression_judges_one_requirement() -> None:
    files = [path for path in conformance_files() if not path.startswith("suites/steps/")]
    counts = {
        path: sum(shared_judgements((ROOT / path).read_text()).values()) for path in sorted(files)
    }
    counts = {path: count for path, count in counts.items() if count}
    more = {
        path: shared_judgements((ROOT / path).read_text())
        for path, count in counts.items()
        if count > SHARED_JUDGEMENTS.get(path, 0)
    }
    assert not more, (
        f"{more}: judge each requirement by the fact of which it speaks, and only if its premise"
        " held"
    )
    fewer = {
        path: count for path, count in SHARED_JUDGEMENTS.items() if counts.get(path, 0) < count
    }
    assert not fewer, f"{', '.join(fewer)}: lower the number in SHARED_JUDGEMENTS"


def test_a_judgement_of_several_requirements_is_noticed() -> None:
    source = (
        "def test_x(target):\n"
        "    target.record_finding((A, B), True, '')\n"
        "    target.record_finding(A, True, '')\n"
        "    peer.expect(frame('open'), proves=(A, B))\n"
        "    target.require(target.cited, True, '')\n"
        "    rules = (A,) if peer else tuple(peer)\n"
        "    target.record_finding(rules or (A,), True, '')\n"
    )
    assert shared_judgements(source) == {"test_x": 4}


def test_the_table_of_long_cases_names_cases() -> None:
    assert sorted(durations().keys() - {case.name for case in cases()}) == []


SHARED_NAME = re.compile(r'"transaction"[:,] f?"(?!\{|never begun|none")')


def test_no_two_cases_name_their_transactions_alike() -> None:
    """On brokers whose connections share the names of transactions, cases with one name would fail,
    although only the case about such names should."""
    alike = [
        f"{path}:{number}"
        for path in conformance_files()
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1)
        if SHARED_NAME.search(line)
    ]
    assert alike == []


def test_the_time_that_judging_takes_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    late = 0
    begins, judges, now = idle.in_state, idle.signs_of_life, Bench.now

    def begin(*given: Any) -> Any:
        nonlocal late
        late = 0
        return begins(*given)

    def judge(*given: Any) -> Any:
        nonlocal late
        late += seconds(60)
        return judges(*given)

    monkeypatch.setattr(idle, "in_state", begin)
    monkeypatch.setattr(idle, "signs_of_life", judge)
    monkeypatch.setattr(Bench, "now", lambda bench: now(bench) + late)
    (call,) = [call for call in all_calls() if "signs_of_life_go_on" in call.id]
    result = execute(run_of(target_file.load("reference")), call)
    assert result.verdict is Verdict.PASS, result.detail
