"""Bytecode mutants: the choice of cases, and what counts as a kill."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from brokerproof.harness.cases.example_runs import Call
from brokerproof.harness.model.finding import JudgedFinding
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results.records import Result
from brokerproof.suites.mutation.bytecode import agent, command, matrix, own_tests, plan, records
from brokerproof.suites.mutation.bytecode.agent import BytecodeMutant
from brokerproof.suites.mutation.bytecode.broker import MutableBroker
from brokerproof.suites.mutation.bytecode.records import ControlRecord, Fate, FateRecord

STOMP = "org.apache.activemq.artemis.core.protocol.stomp.StompConnection"
MUTANT = BytecodeMutant(STOMP, "send", "()V", 7, "x.NegateConditionalsMutator", 12, "negated")
LINE = f"{STOMP}:12"


def _control(case: str, seconds: float, *lines: str, verdict: str = "PASS") -> ControlRecord:
    return ControlRecord(case, verdict, seconds, lines)


def _by_case(*controls: ControlRecord) -> dict[str, ControlRecord]:
    return {control.case: control for control in controls}


def test_a_line_of_the_list_is_a_mutant() -> None:
    line = f"{STOMP}\tsend\t()V\t7\tx.NegateConditionalsMutator\t12\tnegated"
    assert BytecodeMutant.parsed(line) == MUTANT
    assert MUTANT.name == "core.protocol.stomp.StompConnection.send:12#7 NegateConditionals"
    assert MUTANT.area == "STOMP"
    assert MUTANT.source_line == LINE


def test_the_order_of_a_sample_does_not_depend_on_the_order_of_the_list() -> None:
    mutants = [BytecodeMutant(STOMP, "send", "()V", n, "m", 1, "d") for n in range(50)]
    ordered = agent.sampled(mutants, 1)
    assert ordered == agent.sampled(mutants[::-1], 1)
    assert ordered != agent.sampled(mutants, 2)
    assert ordered != mutants


def test_a_manifest_has_no_line_of_more_than_72_bytes() -> None:
    lines = agent._folded("Class-Path: " + "x" * 300 + "\n").splitlines()
    assert max(map(len, lines)) <= 72
    assert "".join(lines[:1] + [line[1:] for line in lines[1:]]) == "Class-Path: " + "x" * 300


def test_short_cases_and_those_that_run_few_lines_take_turns() -> None:
    controls = _by_case(
        _control("short", 0.1, LINE, "a:1", "a:2", "a:3"),
        _control("shorter than most", 0.2, LINE, "a:1", "a:2"),
        _control("special", 5.0, LINE),
        _control("elsewhere", 0.1, "a:1"),
        _control("fails anyway", 0.1, LINE, verdict="FAIL"),
        _control("endless", 100.0, LINE),
    )
    cases = [control.case for control in plan.covering(MUTANT, controls)]
    assert cases == ["short", "special", "shorter than most"]


def test_a_turn_ends_but_not_before_its_first_case() -> None:
    long = [_control(str(n), plan.TURN_S * 0.6) for n in range(3)]
    assert plan.within_a_turn(long) == long[:1]
    assert plan.within_a_turn([_control("a", plan.TURN_S * 2)]) == [_control("a", plan.TURN_S * 2)]


def test_a_loop_that_lasts_as_long_as_the_broker_is_mutated_before_it_starts() -> None:
    name = (
        "org.apache.activemq.artemis.core.remoting.server.impl"
        ".RemotingServiceImpl$FailureCheckAndFlushThread"
    )
    loop = BytecodeMutant(name, "run", "()V", 1, "m", 1, "d")
    assert plan.begins_mutated(loop, is_covered=True)
    assert not plan.begins_mutated(MUTANT, is_covered=True)
    assert plan.begins_mutated(MUTANT, is_covered=False)


@dataclass
class _Agent:
    mutated: bool = False

    def mutate(self, mutant: BytecodeMutant) -> None:
        self.mutated = True

    def restore(self) -> None:
        self.mutated = False

    def busy_threads(self) -> int:
        return 0


@dataclass
class _Broker:
    """A broker on which cases end as in ``on_mutant`` and otherwise pass, unless the mutant harmed
    the broker permanently."""

    on_mutant: dict[str, Verdict]
    harmed_for_good: bool = False
    ends: bool = False
    unmet: tuple[str, ...] = ()
    agent: _Agent = field(default_factory=_Agent)
    starts: int = 0
    ran: list[str] = field(default_factory=list)
    has_ended: bool = False
    _harmed: bool = False

    def start(self, scope: Sequence[str] = (), mutant: BytecodeMutant | None = None) -> None:
        self.starts += 1
        self._harmed = False
        self.agent = _Agent(mutated=mutant is not None)

    def execute(self, call: Call) -> Result:
        self.ran.append(call.id)
        verdict = Verdict.PASS
        if self.agent.mutated:
            verdict = self.on_mutant.get(call.id, Verdict.PASS)
            self._harmed = self.harmed_for_good
            self.has_ended = self.ends
        elif self._harmed:
            verdict = Verdict.FAIL
        seen = Seen.UNMET if call.id in self.unmet and self.agent.mutated else Seen.NEVER_REACHED
        finding = JudgedFinding("STOMP12-ACK-01", seen, "so", verdict=verdict)
        return Result(call.id, "t", (), verdict, "so", (finding,))


def _judged(broker: _Broker, *cases: str) -> FateRecord:
    controls = _by_case(*(_control(case, 0.1, LINE) for case in cases))
    calls = {case: cast(Any, SimpleNamespace(id=case)) for case in cases}
    worker = matrix._Worker(cast(MutableBroker, broker), calls, controls, is_running=True)
    return matrix._judged(worker, MUTANT)


def test_a_case_that_fails_on_the_mutant_and_passes_without_it_kills() -> None:
    broker = _Broker({"b": Verdict.FAIL})
    fate = _judged(broker, "a", "b", "c")
    assert (fate.fate, fate.case, fate.cases) == (Fate.KILLED, "b", 2)
    assert broker.ran == ["a", "b", "b"]
    assert broker.starts == 0


def test_no_case_that_fails_is_a_survivor() -> None:
    assert _judged(_Broker({}), "a", "b").fate is Fate.SURVIVED


def test_a_warning_is_no_kill() -> None:
    assert _judged(_Broker({"a": Verdict.WARN}), "a").fate is Fate.SURVIVED


def test_a_mutant_that_harms_the_broker_for_good_is_judged_on_a_new_one() -> None:
    broker = _Broker({"a": Verdict.FAIL}, harmed_for_good=True)
    assert _judged(broker, "a").fate is Fate.KILLED
    assert broker.starts == 1
    assert broker.ran == ["a", "a", "a"]


def test_a_failure_that_no_new_broker_shows_is_no_kill() -> None:
    broker = _Broker({"a": Verdict.FAIL}, harmed_for_good=True)
    broker.start = lambda *_, **__: broker.on_mutant.clear()  # type: ignore[method-assign]
    fate = _judged(broker, "a")
    assert fate.fate is Fate.SURVIVED
    assert "once killed by a" in fate.detail


def test_a_case_that_remains_open_is_no_kill() -> None:
    fate = _judged(_Broker({"a": Verdict.INCONCLUSIVE}), "a", "b")
    assert (fate.fate, fate.case) == (Fate.INCONCLUSIVE, "a")


def test_a_control_that_fails_on_the_mutant_alone_has_noticed_it() -> None:
    open_too = dict.fromkeys(("a", "b"), Verdict.INCONCLUSIVE)
    fate = _judged(_Broker(open_too, unmet=("b",)), "a", "b")
    assert (fate.fate, fate.case) == (Fate.NOTICED, "b")


def test_a_failure_counts_more_than_cases_that_could_not_be_put() -> None:
    broker = _Broker({"a": Verdict.INCONCLUSIVE, "b": Verdict.FAIL})
    assert _judged(broker, "a", "b").fate is Fate.KILLED


def test_a_broker_that_ends_is_a_kill() -> None:
    broker = _Broker({}, ends=True)
    fate = _judged(broker, "a")
    assert (fate.fate, fate.detail) == (Fate.KILLED, "the broker ended")


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    fate = FateRecord(MUTANT.name, "STOMP", "negated", Fate.KILLED, "a", "so", 1, 2)
    for record in (FateRecord(MUTANT.name, "STOMP", "negated", Fate.SURVIVED), fate):
        records.append(tmp_path / "fates", record)
    assert records.fates(tmp_path / "fates") == {MUTANT.name: fate}
    control = _control("a", 0.1, LINE)
    records.append(tmp_path / "controls", control)
    assert records.controls(tmp_path / "controls") == {"a": control}
    assert records.fates(tmp_path / "absent") == {}


def test_own_tests_that_pass_and_run_the_line_are_tried_shortest_first(tmp_path: Path) -> None:
    rows = [
        ("long", "SUCCESSFUL", "900", LINE),
        ("short", "SUCCESSFUL", "10", f"a:1 {LINE}"),
        ("fails", "FAILED", "10", LINE),
        ("elsewhere", "SUCCESSFUL", "10", "a:1"),
    ]
    path = tmp_path / "own"
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    tests = own_tests.covering(MUTANT, own_tests.controls(path))
    assert [test.test for test in tests] == ["short", "long"]


def test_the_fates_of_own_tests_become_records(tmp_path: Path) -> None:
    path = tmp_path / "own"
    key = MUTANT.key.replace("\t", " ")
    path.write_text(f"{key}\tTIMED_OUT\tsome test\t3\n", "utf-8")
    (record,) = own_tests.as_records(path, [MUTANT])
    assert (record.fate, record.case, record.cases) == (Fate.KILLED, "some test", 3)


@pytest.mark.parametrize(("own", "shown"), [({MUTANT.name: Fate.KILLED}, "1 of 1"), ({}, "")])
def test_the_table_compares_the_same_mutants(own: dict[str, Fate], shown: str) -> None:
    fates = [
        FateRecord(MUTANT.name, "STOMP", "d", Fate.KILLED),
        FateRecord("other", "AMQP", "d", Fate.NOT_EXECUTED),
    ]
    table = command.table(fates, own)
    columns = [list(column.cells) for column in table.columns]
    assert columns[0] == [*agent.AREAS, "all"]
    assert columns[2] == ["1", "0", "0", "0", "1"]
    assert [str(column.header) for column in table.columns][3:5] == ["noticed", "inconclusive"]
    assert columns[-1][-1] == shown
