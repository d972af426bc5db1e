"""Pairs of clients and brokers: honest and faulty ones, and an interrupted matrix."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from click.testing import CliRunner

from brokerproof.harness.cases import pairs
from brokerproof.harness.cases.pairs import SIDES, Cell, PairTrial
from brokerproof.harness.commands import errors
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.oracles.pairs import BROKER
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.client.target import ClientTarget
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.reports import pairs_command

ACKNOWLEDGED = pairs.SCENARIOS["each"]["steps"]
QUICK = ["connect", "consume auto"]
BEATS = ["beat", *QUICK, "wait 4"]
FAULTY = """
import sys
from stomppy import StompPy

class Faulty(StompPy):
    def do_ack(self, message, transaction=None):
        pass

Faulty().serve("faulty", "1")
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SocketTarget]:
    target = target_file.load("reference-real")
    assert isinstance(target, SocketTarget)
    target.start(tmp_path_factory.mktemp("logs"))
    yield target
    target.stop()


def tried(client: str, broker: SocketTarget, folder: Path, steps: list[str]) -> tuple[Cell, str]:
    target = target_file.load(client)
    assert isinstance(target, ClientTarget)
    target.start(folder)
    try:
        return PairTrial(target, broker, f"anycast.{folder.name}").run(steps)
    finally:
        target.stop()


def test_an_honest_pair_keeps_beats_and_acknowledgements(
    broker: SocketTarget, tmp_path: Path
) -> None:
    steps = ["beat", *ACKNOWLEDGED, "wait 2"]
    cell, sentence = tried("client:stomp.py", broker, tmp_path, steps)
    assert cell is Cell.KEPT or sentence.startswith("the host was late"), sentence


def test_a_client_that_acknowledges_nothing_deviates(broker: SocketTarget, tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text(FAULTY)
    (tmp_path / "faulty.client.toml").write_text(
        'kind = "client"\nprofile = "stomp-client"\ncommand = ["{python}", "{here}/driver.py"]\n'
    )
    faulty = str(tmp_path / "faulty.client.toml")
    cell, sentence = tried(faulty, broker, tmp_path, ACKNOWLEDGED)
    assert cell in (Cell.DEVIATES, Cell.UNDECIDED)
    assert "message 0 arrived 2 times" in sentence


@pytest.mark.parametrize(
    "trouble",
    [
        (lambda data: b"" if data == b"\n" else data, BEATS, "the broker is silent for"),
        (lambda data: data * (1 + data.startswith(b"MESSAGE")), QUICK, "message 0 arrived 2 times"),
        (None, QUICK, "ms after the last byte of the client"),
    ],
)
def test_a_broker_that_is_silent_doubles_or_leaves_deviates(
    broker: SocketTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: tuple[Any, ...]
) -> None:
    fault, steps, expected = trouble
    honest = pairs._Half.bytes_arrived

    def arrived(self: pairs._Half, at: int, data: bytes) -> None:
        if SIDES[self.side] != BROKER:
            honest(self, at, data)
        elif fault is None and b"MESSAGE" in data:
            self.channel_closed(at, CloseHow.EOF)
        elif data := data if fault is None else fault(data):
            honest(self, at, data)

    monkeypatch.setattr(pairs._Half, "bytes_arrived", arrived)
    cell, sentence = tried("client:stomp.py", broker, tmp_path, steps)
    assert cell in (Cell.DEVIATES, Cell.UNDECIDED)
    assert expected in sentence


def test_a_slow_alarm_does_not_hold_up_heartbeats(
    broker: SocketTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "raise_alarm", lambda *_: Event().wait(4))
    monkeypatch.setattr(type(broker.identity), "lack_of", lambda *_: "")
    cell, sentence = tried("client:stomp.py", broker, tmp_path, ["beat", *QUICK, "alarm 1"])
    assert cell is Cell.KEPT or sentence.startswith("the host was late"), sentence


def test_what_deviates_once_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = iter([(Cell.DEVIATES, "a message was lost"), (Cell.KEPT, "")])

    class Trial:
        def __init__(self, *arguments: object) -> None: ...

        def run(self, steps: list[str]) -> tuple[Cell, str]:
            return next(cells)

    monkeypatch.setattr(pairs, "PairTrial", Trial)
    found = pairs.judge(Trial(), Trial(), "idle", "q")  # type: ignore[arg-type]
    assert found == (Cell.UNDECIDED, "once, but not again: a message was lost")


def test_an_interrupted_matrix_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []

    def judge(client: object, broker: object, scenario: str, name: str) -> tuple[Cell, str]:
        if scenario == "many" and judged == ["idle"]:
            raise KeyboardInterrupt
        judged.append(scenario)
        return (Cell.KEPT, "") if scenario != "large" else (Cell.DEVIATES, "a <message> was lost")

    @contextmanager
    def started(name: str, kind: object, logs: Path) -> Iterator[tuple[object, str]]:
        yield None, "1"

    monkeypatch.setattr(pairs, "judge", judge)
    monkeypatch.setattr(pairs_command, "_started", started)
    asked = ["--client=stomp.py", "--broker=reference-real", "-j1", f"--out={tmp_path}"]
    asked += [f"--scenario={name}" for name in ("idle", "many", "large")]
    first = CliRunner().invoke(pairs_command.command, asked, standalone_mode=False)
    assert isinstance(first.exception, errors.Interrupted)
    with (tmp_path / pairs_command.RESULTS).open("a") as file:
        file.write('\n{"client": "cut sh')
    again = CliRunner().invoke(pairs_command.command, asked, standalone_mode=False)
    assert again.return_value == 1
    assert sorted(judged) == ["idle", "large", "many"], "nothing twice"
    page = (tmp_path / "index.html").read_text("utf-8")
    assert "a &lt;message&gt; was lost" in page
    assert page.count('class="v FAIL"') == 3, "legend, matrix and sentence"
