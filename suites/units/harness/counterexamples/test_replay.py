"""A failed case leaves a counterexample. Its replay says FIXED or FAILED, and so do scripts that
need only Python."""

import ast
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.cases import case as cases
from brokerproof.harness.cases import confirm_and_shrink
from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import Case, Over, Where
from brokerproof.harness.cases.example_record import ExampleRecord
from brokerproof.harness.cases.execution import Call, Run, execute
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.commands import errors
from brokerproof.harness.commands.replay import replay
from brokerproof.harness.counterexamples import case_file, plans, target_playback, writer
from brokerproof.harness.counterexamples import replay as counterexamples_replay
from brokerproof.harness.counterexamples.player import Frames
from brokerproof.harness.model.enums import Clock, CloseHow
from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.protocols.stomp.raw_peer import MESSAGE
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.reference.target import VirtualTarget
from brokerproof.harness.targets.target import Target
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.reference_broker import assembly
from brokerproof.reference_broker.assembly import FamilyRow, Protocols
from brokerproof.reference_broker.families.artemis.family import ArtemisFamily
from brokerproof.reference_broker.families.parts import Parts
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.runtime import virtual
from brokerproof.reports.model import counterexamples
from brokerproof.reports.model.index_model import CaseRow
from brokerproof.reports.sources.runs import Run as ReportedRun
from brokerproof.suites.flow.test_consumer_window import Plan
from brokerproof.suites.stomp.malformations import KINDS
from brokerproof.suites.units.drivers.targets import started

MUST, SHOULD = "STOMP12-HDR-17", "STOMP12-HDR-05"


class _NoReceiptForCommit(StompConnection):
    def _command(self, frame: Any) -> None:
        if frame.head.command != "COMMIT":
            super()._command(frame)


def faulty() -> VirtualTarget:
    original = target_file.load("reference")
    assert isinstance(original, VirtualTarget)

    def assembled(parts: Parts) -> tuple[ArtemisFamily, Protocols]:
        return ArtemisFamily(parts), Protocols(stomp=_NoReceiptForCommit)

    def made(config: str, overrides: Mapping[str, Any], *, start: int) -> virtual.Made:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(assembly, "FAMILIES", (FamilyRow(lambda settings: True, assembled),))
            return virtual.make(config, overrides, start=start)

    return VirtualTarget(replace(original.identity, name="faulty"), made, original.config)


def run_on(target: Target, folder: Path | None) -> Run:
    facts = target.start(Path())
    recorder = Recorder(None, run="run", target=target.identity.name, clock=target.clock)
    keep = None if folder is None else partial(writer.keep, folder)
    return Run(
        target, facts, requirements.load(), (), recorder, "normal", seed=7, keep_counterexample=keep
    )


def committing(target: Bench, sizes: tuple[int, ...]) -> None:
    peer, to = target.stomp("1.2"), target.destination()
    peer.subscribe(to, ack="client-individual")
    for size in sizes:
        peer.publish(to, b"x" * size)
        message = peer.message()
        peer.send("ACK", peer.naming(message))
        peer.request("BEGIN", {"transaction": "t"})
        peer.request("COMMIT", {"transaction": "t"}, within=seconds(2), proves=MUST)


@pytest.fixture
def registered() -> Iterator[Callable[..., Call]]:
    names = []

    def register(function: Callable[..., Any], over: Over | None = None, cited: str = MUST) -> Call:
        made = Case(
            "units.kept", "units", function, {None: (cited,)}, frozenset(), "", "here:1", over
        )
        cases._REGISTRY[made.name] = made
        names.append(made.name)
        return Call(made, None, {}, made.name)

    yield register
    for name in names:
        cases._REGISTRY.pop(name, None)


SIZES = Over({"sizes": st.lists(st.integers(0, 50), min_size=1, max_size=4).map(tuple)}, 20)


@pytest.fixture
def kept(registered: Callable[..., Call], tmp_path: Path) -> Path:
    result = execute(run_on(faulty(), tmp_path), registered(committing, SIZES))
    assert result.verdict is Verdict.FAIL
    return tmp_path / f"{case_file.slug('faulty', 'units.kept')}{case_file.SUFFIX}"


def test_a_failure_is_kept_as_its_smallest_example_without_the_passcode(kept: Path) -> None:
    file = case_file.read(kept)
    assert file.header["drawn"] == "sizes=(0,)"
    assert [requirement["id"] for requirement in file.header["requirements"]] == [MUST]
    assert file.conversation is not None
    assert file.conversation.expected["kind"] == "frame"
    assert file.conversation.lines[-1].verb == "pause"
    assert file.conversation.lines[-1].about == {"ms": 2000.0}
    assert kept.with_name(file.header["raw_script"]).exists()
    assert kept.with_name(file.header["stompy_script"]).exists()
    for path in kept.parent.iterdir():
        assert "passcode:brokerproof" not in path.read_text(), path


def test_an_acknowledgement_names_the_message_of_its_own_run(kept: Path) -> None:
    text = kept.read_text()
    assert '{"of_message": [1, 1, "ack"]}' in text


def test_scripts_are_python_and_need_nothing_of_ours(kept: Path) -> None:
    header = case_file.read(kept).header
    for name in (header["raw_script"], header["stompy_script"]):
        parsed = ast.parse(kept.with_name(name).read_text())
        imported = {
            (node.names[0].name if isinstance(node, ast.Import) else node.module or "").partition(
                "."
            )[0]
            for node in ast.walk(parsed)
            if isinstance(node, (ast.Import, ast.ImportFrom))
        }
        assert imported <= set(sys.stdlib_module_names) | {"stomp"}


def test_the_case_again_fails_on_the_faulty_and_is_fixed_on_the_reference(kept: Path) -> None:
    file = case_file.read(kept)
    call, plan = counterexamples_replay.restored(file)
    answers = {}
    for target in (faulty(), target_file.load("reference")):
        steps: list[str] = []
        answers[target.identity.name] = counterexamples_replay.run_case(
            run_on(target, None), file, call, plan, steps.append
        ).answer
        assert any("COMMIT" in step for step in steps)
        assert not any("passcode:brokerproof" in step for step in steps)
    assert answers == {
        "faulty": counterexamples_replay.FAILED,
        "reference": counterexamples_replay.FIXED,
    }


def test_the_bytes_alone_say_the_same(kept: Path) -> None:
    file = case_file.read(kept)
    for target, answer in (
        (faulty(), counterexamples_replay.FAILED),
        (target_file.load("reference"), counterexamples_replay.FIXED),
    ):
        found = counterexamples_replay.run_bytes(
            run_on(target, None), file, "asked", lambda text: None
        )
        assert (found.answer, found.how, found.why) == (answer, "octets", "asked")


def test_a_case_that_changed_is_not_run(kept: Path, registered: Callable[..., Call]) -> None:
    def other(target: Bench, sizes: tuple[int, ...]) -> None:
        target.record_finding(MUST, True, "something else")

    registered(other, SIZES)
    with pytest.raises(counterexamples_replay.Changed, match="has changed since"):
        counterexamples_replay.restored(case_file.read(kept))


def test_the_raw_script_decides_against_a_real_broker(kept: Path) -> None:
    script = kept.with_name(case_file.read(kept).header["raw_script"])
    login = ["--login", "brokerproof", "--passcode", "brokerproof"]
    with started("reference-real", kept.parent) as target:
        host, port = target.endpoints["stomp"]  # type: ignore[attr-defined]
        command = [sys.executable, str(script), f"{host}:{port}", *login]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "It arrived as expected." in done.stdout


@pytest.mark.parametrize(
    ("bend", "words"),
    [
        (lambda lines: [], "line 1: is not a header"),
        (lambda lines: ["{}", *lines[1:]], "line 1: is not a header"),
        (lambda lines: [lines[0], lines[1][:20]], "line 2: is not JSON"),
        (
            lambda lines: [lines[0].replace('"version": 1', '"version": 9'), *lines[1:]],
            "version is 9",
        ),
        (
            lambda lines: lines[:-1],
            "the first should be a conversation and the last an expectation",
        ),
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence(
    kept: Path, bend: Callable[[list[str]], list[str]], words: str
) -> None:
    kept.write_text("\n".join(bend(kept.read_text().splitlines())))
    with pytest.raises(case_file.BadCaseFile, match=words):
        case_file.read(kept)


def test_a_passing_case_keeps_nothing(registered: Callable[..., Call], tmp_path: Path) -> None:
    result = execute(
        run_on(target_file.load("reference"), tmp_path / "kept"), registered(committing, SIZES)
    )
    assert result.verdict is Verdict.PASS
    assert not (tmp_path / "kept").exists()


# plans

VALUES = [
    None,
    b"\xff\x00",
    (1, (2.5, "x")),
    {"a": [b"1"], ("t",): True},
    frozenset({"a", "b"}),
    CloseHow.RESET,
    Where("stomp", {"acceptor": {"connection_ttl_ms": None}}),
    KINDS[3],
    [KINDS[0], KINDS[5]],
]


@pytest.mark.parametrize("value", VALUES, ids=[str(place) for place in range(len(VALUES))])
def test_arguments_are_stored_and_restored(value: object) -> None:
    assert plans.decode(json.loads(json.dumps(plans.encode(value)))) == value


@given(
    st.recursive(
        st.none() | st.integers() | st.binary() | st.text(),
        lambda inner: st.lists(inner).map(tuple) | st.lists(inner),
    )
)
def test_any_plain_value_is_stored_and_restored(value: object) -> None:
    assert plans.decode(json.loads(json.dumps(plans.encode(value)))) == value


def test_dataclasses_of_suites_are_stored() -> None:
    names = [field.name for field in dataclasses.fields(Plan)]
    assert "sizes" in names
    assert plans._name(Plan) == "brokerproof.suites.flow.test_consumer_window:Plan"


@pytest.mark.parametrize(
    "stored",
    [
        {"dataclass": "os:system", "fields": {}},
        {"dataclass": "brokerproof.harness.cases.case:case", "fields": {}},
        {"enum": "brokerproof.harness.cases.case:Where", "member": "x"},
        {"dataclass": "suites.nowhere:Thing", "fields": {}},
        {
            "constant": "brokerproof.suites.stomp.malformations:KINDS",
            "index": 0,
            "shown": "another",
        },
        {"pickle": "x"},
    ],
)
def test_nothing_else_is_called(stored: object) -> None:
    with pytest.raises(plans.Unrestorable):
        plans.decode(stored)


# reproduction


class RealTimeTwin:
    """The reference broker in virtual time, which claims to be real."""

    clock = Clock.REAL

    def __init__(self, inner: Target) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("requirement", [MUST, SHOULD])
def test_what_fails_once_in_real_time_is_irreproducible(
    registered: Callable[..., Call], tmp_path: Path, requirement: str
) -> None:
    runs: list[int] = []

    def once(target: Bench) -> None:
        runs.append(1)
        target.record_finding(requirement, len(runs) > 1, "only the first time")

    result = execute(
        run_on(RealTimeTwin(target_file.load("reference")), tmp_path / "kept"),
        registered(once, cited=requirement),
    )
    assert (result.verdict, len(runs)) == (Verdict.INCONCLUSIVE, 2)
    assert "irreproducible" in result.detail
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(("late", "verdict"), [(1, Verdict.FAIL), (9, Verdict.INCONCLUSIVE)])
def test_a_repetition_on_a_late_host_is_tried_again(
    registered: Callable[..., Call], late: int, verdict: Verdict
) -> None:
    doubts = iter([None, *["late host"] * late, None])
    run = run_on(RealTimeTwin(target_file.load("reference")), None)
    call = registered(lambda target: target.record_finding(MUST, False, "", uncertain=next(doubts)))
    result = execute(run, call)
    assert result.verdict is verdict
    assert ("run again, late host" in result.detail) is (verdict is Verdict.INCONCLUSIVE)


def test_what_fails_again_in_real_time_stands(
    registered: Callable[..., Call], tmp_path: Path
) -> None:
    def always(target: Bench) -> None:
        target.stomp().expect(MESSAGE, within=ms(50), proves=MUST)

    result = execute(
        run_on(RealTimeTwin(target_file.load("reference")), tmp_path), registered(always)
    )
    assert result.verdict is Verdict.FAIL
    assert list(tmp_path.glob("*_raw.py"))


def test_an_example_in_real_time_is_made_smaller_on_the_reference(
    registered: Callable[..., Call], tmp_path: Path
) -> None:
    def bad(target: Bench, size: int) -> None:
        target.record_finding(MUST, size < 37, f"size {size}")

    over = Over({"size": st.integers(0, 1000)}, 300)
    result = execute(
        run_on(RealTimeTwin(target_file.load("reference")), tmp_path), registered(bad, over)
    )
    assert result.verdict is Verdict.FAIL
    [path] = tmp_path.glob("*.case.jsonl")
    assert case_file.read(path).header["drawn"] == "size=37"


def test_an_uncertain_violation_is_no_example(registered: Callable[..., Call]) -> None:
    run, call = run_on(target_file.load("reference"), None), registered(lambda target: None)
    record = ExampleRecord(findings=[Finding(MUST, Seen.VIOLATED, "late", "the host was late")])
    assert confirm_and_shrink.example_of(run, call, record, frozenset({MUST})) is None
    record.findings.append(Finding(MUST, Seen.VIOLATED, "late"))
    assert confirm_and_shrink.example_of(run, call, record, frozenset({MUST})) is record


# the player's own reader


def test_frames_are_cut_wherever_the_bytes_are(kept: Path) -> None:
    message_bytes = b"\nMESSAGE\r\nack:1\r\n\r\nbody\0\n\nERROR\ncontent-length:3\n\n\0\0\0\0RECEIPT\nreceipt-id:a\\cb\n\n\0"  # noqa: E501
    for cut in range(len(message_bytes)):
        reader = Frames()
        found = reader.feed(0, message_bytes[:cut]) + reader.feed(1, message_bytes[cut:])
        assert [frame.command for frame in found] == ["MESSAGE", "ERROR", "RECEIPT"]
        assert [frame.body for frame in found] == [b"body", b"\0\0\0", b""]
        assert found[2].get("receipt-id") == "a\\cb"


def test_silence_and_ends_are_decided(registered: Callable[..., Call], tmp_path: Path) -> None:
    def quiet(target: Bench) -> None:
        peer, to = target.stomp(), target.destination()
        peer.subscribe(to)
        peer.publish(to, b"a")
        peer.expect_nothing(for_=ms(500), of=MESSAGE, proves=MUST)

    def gone(target: Bench) -> None:
        target.stomp().expect_end(within=ms(200), proves=MUST)

    for function, kind in ((quiet, "silence"), (gone, "end")):
        assert (
            execute(run_on(target_file.load("reference"), tmp_path), registered(function)).verdict
            is Verdict.FAIL
        )
        [path] = tmp_path.glob("*.case.jsonl")
        file = case_file.read(path)
        assert file.conversation is not None
        assert file.conversation.expected["kind"] == kind
        target = target_file.load("reference")
        target.start(tmp_path)
        assert target_playback.play(target, file.conversation, lambda text: None)[0] is False


# the command and the report


def test_the_command_answers_with_its_exit_code_and_says_when_it_plays_bytes(kept: Path) -> None:
    done = CliRunner().invoke(replay, [str(kept), "--target", "reference"], standalone_mode=False)
    assert done.return_value == 0
    assert (
        "Playing the recorded bytes instead of the case: 'units.kept' is not the name of a"
        " conformance case." in done.output
    )
    assert done.output.splitlines()[-2].startswith("FIXED units.kept on reference")
    done = CliRunner().invoke(
        replay, [str(kept), "--target", "reference", "--json"], standalone_mode=False
    )
    told = json.loads(done.output)
    assert (told["answer"], told["how"]) == ("FIXED", "octets")
    assert any("COMMIT" in step for step in told["steps"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.case.jsonl", "--target", "reference"], "nowhere.case.jsonl: cannot be read"),
        (["X", "--target", "?"], "X"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(replay, arguments, standalone_mode=False)
    assert isinstance(done.exception, errors.Usage)
    assert words in done.exception.message


def test_a_case_page_carries_what_was_kept(kept: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / case_file.FOLDER).mkdir(parents=True)
    for path in tmp_path.glob("*faulty*"):
        path.rename(folder / case_file.FOLDER / path.name)
    row = CaseRow("run", "faulty", "units.kept", "FAIL", "", (MUST,), 1, 0.1, "{}", "{}")
    files = counterexamples.kept(ReportedRun(folder, "run", {}), row)
    assert [file.name.removeprefix(case_file.slug("faulty", "units.kept")) for file in files] == [
        ".case.jsonl",
        "_raw.py",
        "_stompy.py",
    ]
    assert all(file.text for file in files)
    assert counterexamples.kept(ReportedRun(folder, "run", {}), replace(row, verdict="PASS")) == []


def test_the_command_of_a_report_names_the_target_as_the_run_was_given_it(tmp_path: Path) -> None:
    row = CaseRow("run", "hermes", "units.kept", "FAIL", "", (MUST,), 1, 0.1, "{}", "{}")
    header = {"targets": [{"name": "hermes"}], "asked": {"targets": ["my brokers/hermes.toml"]}}
    file = f"{case_file.slug('hermes', 'units.kept')}{case_file.SUFFIX}"
    command = counterexamples.replay(ReportedRun(tmp_path, "run", header), row)
    assert command == f"brokerproof replay {file} --target 'my brokers/hermes.toml'"
    unknown = counterexamples.replay(ReportedRun(tmp_path, "run", {}), row)
    assert unknown == f"brokerproof replay {file} --target hermes"


def test_what_a_script_cannot_do_is_not_written_as_one(
    registered: Callable[..., Call], tmp_path: Path
) -> None:
    def short(target: Bench) -> None:
        target.raise_alarm("memory")
        target.stomp().expect(MESSAGE, within=ms(50), proves=MUST)

    execute(run_on(target_file.load("reference-rabbitmq"), tmp_path), registered(short))
    [path] = tmp_path.iterdir()
    file = case_file.read(path)
    assert file.conversation is None
    assert "changed the broker's limits" in file.header["raw_why_not"]
    answer = counterexamples_replay.run_bytes(
        run_on(target_file.load("reference"), None), file, "asked", lambda text: None
    )
    assert answer.answer == counterexamples_replay.ERROR
    assert "changed the broker's limits" in answer.detail
