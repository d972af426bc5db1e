"""For each kind of expectation, a replay finds that it is met, violated again, or undecidable."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.counterexamples import scripts
from brokerproof.harness.counterexamples.decision import decidable, decide
from brokerproof.harness.counterexamples.player import Diverged, Player, Ref, Settled
from brokerproof.harness.counterexamples.script_builder import Composed, Line

MET, VIOLATED, UNKNOWN = True, False, None
NOTHING: dict[str, Any] = {"came": {}, "ended": []}


class ScriptedPlayer(Player):
    """A player without sockets. ``answers`` has the bytes that arrive after each write; None ends
    the connection. Time passes only while the player waits in vain."""

    def __init__(self, *answers: bytes | None, recorded: dict[str, Any] | None = None) -> None:
        super().__init__({}, "", "", b"", lambda text: None, recorded)
        self._answers = list(answers)
        self._clock = 0.0

    def now(self) -> float:
        return self._clock

    def _dial(self, conn: int, acceptor: str) -> None:
        pass

    def _write(self, conn: int, data: bytes) -> None:
        answer = self._answers.pop(0)
        if answer is None:
            self.closed(conn, "EOF")
        else:
            self.arrived(conn, answer)

    def _wait(self, deadline: float, ready: Callable[[], bool]) -> None:
        if not ready():
            self._clock = max(self._clock, deadline)


def message(body: bytes) -> bytes:
    return b"MESSAGE\ncontent-length:%d\n\n%s\0" % (len(body), body)


def receipt(name: bytes) -> bytes:
    return b"RECEIPT\nreceipt-id:" + name + b"\n\n\0"


def player(*answers: bytes | None) -> ScriptedPlayer:
    played = ScriptedPlayer(*answers)
    played.open(1, "stomp")
    for _ in answers:
        played.send(1, b"SEND\n\n\0")
    return played


def shape(kind: str, command: str, before: int) -> dict[str, Any]:
    return {
        "kind": kind,
        "words": command,
        "conn": 1,
        "command": command,
        "headers": [],
        "body": None,
        "before": before,
    }


def messages(match: str, *want: bytes, first: int = 0) -> dict[str, Any]:
    return {
        "kind": "messages",
        "words": "the messages",
        "conns": [[1, first]],
        "want": list(want),
        "match": match,
        "ignored": [b"sentinel"],
    }


OPEN = {"kind": "open", "words": "stays open", "conn": 1}
END = {"kind": "end", "words": "closes", "conn": 1}
ERROR = b"ERROR\n\n\0"
A, B = message(b"a"), message(b"b")


@pytest.mark.parametrize(
    ("expected", "answers", "decision"),
    [
        (shape("frame", "RECEIPT", 1), (receipt(b"1"), receipt(b"2")), MET),
        (shape("frame", "RECEIPT", 1), (receipt(b"1"),), VIOLATED),
        (shape("frame", "RECEIPT", 0), (ERROR, None), VIOLATED),
        (shape("absence", "RECEIPT", 0), (ERROR, None), MET),
        (shape("absence", "RECEIPT", 0), (receipt(b"1"),), VIOLATED),
        (shape("silence", "MESSAGE", 1), (A,), MET),
        (shape("silence", "MESSAGE", 1), (A, B), VIOLATED),
        (shape("silence", "MESSAGE", 1), (A, None), VIOLATED),
        (shape("silence", "MESSAGE", 1), (A, ERROR), VIOLATED),
        (END, (None,), MET),
        (END, (ERROR,), VIOLATED),
        (OPEN, (A,), MET),
        (OPEN, (None,), VIOLATED),
        (messages("in order", b"a", b"b"), (A, B), MET),
        (messages("in order", b"a", b"b"), (B, A), VIOLATED),
        (messages("in order", b"b", first=1), (A, B), MET),
        (messages("in order", b"a"), (A, message(b"sentinel")), MET),
        (messages("in order"), (A,), VIOLATED),
        (messages("in order"), (receipt(b"1"),), MET),
        (messages("in any order", b"a", b"b"), (B, A), MET),
        (messages("in any order", b"a", b"b"), (A, B, B), VIOLATED),
        (messages("in any order", b"a", b"b"), (B,), VIOLATED),
        (messages("among others", b"b"), (A, B), MET),
        (messages("among others", b"b"), (A,), VIOLATED),
    ],
)
def test_frames_ends_and_messages(
    expected: dict[str, Any], answers: tuple[bytes | None, ...], decision: bool | None
) -> None:
    assert decide(expected, NOTHING, player(*answers))[0] is decision


SIZE = len(A)


@pytest.mark.parametrize(
    ("window", "total", "count", "settled", "cumulative", "decision"),
    [
        (2 * SIZE, 4, 2, [], False, MET),
        (2 * SIZE, 4, 3, [], False, VIOLATED),  # too many
        (2 * SIZE, 4, 1, [], False, VIOLATED),  # too few
        (2 * SIZE - 1, 4, 2, [], False, MET),
        (2 * SIZE + 1, 4, 3, [], False, MET),
        (2 * SIZE, 2, 2, [], False, MET),
        (2 * SIZE, 1, 1, [], False, MET),  # there are no more deliveries
        (2 * SIZE, 4, 3, [Settled(1, 2, 2)], False, MET),
        (2 * SIZE, 4, 2, [Settled(1, 2, 2)], False, VIOLATED),
        (2 * SIZE, 5, 4, [Settled(1, 2, 2)], True, MET),
        (2 * SIZE, 5, 3, [Settled(1, 2, 2)], True, VIOLATED),  # not refilled
        (0, 4, 1, [], False, MET),
        (0, 4, 2, [], False, VIOLATED),
        (0, 4, 2, [Settled(1, 1, 1)], False, MET),
        (-1, 4, 4, [], False, MET),
        (-1, 4, 3, [], False, VIOLATED),
    ],
)
def test_a_window(
    window: int, total: int, count: int, settled: list[Settled], cumulative: bool, decision: bool
) -> None:
    expected = {
        "kind": "window",
        "words": "a window",
        "conn": 1,
        "window": window,
        "total": total,
        "cumulative": cumulative,
    }
    played = player(*[A] * count)
    played.settled += settled
    assert decide(expected, NOTHING, played)[0] is decision


@pytest.mark.parametrize(
    ("heard", "until", "decision"),
    [
        ([1.0, 1.5, 2.0], 2.4, MET),
        ([1.0, 1.5, 2.0], 2.52, UNKNOWN),
        ([1.0, 1.5, 2.0], 2.7, VIOLATED),
        ([1.0, 2.0], 2.2, VIOLATED),
        ([1.0], 1.4, MET),
        ([1.0], 2.5, VIOLATED),
    ],
)
def test_signs_of_life(heard: list[float], until: float, decision: bool | None) -> None:
    played = player()
    played.heard[1] = heard
    played.marks["since"] = 1.0
    played._clock = until
    expected = {"kind": "signs", "words": "gap", "conn": 1, "lo_s": 0.0, "hi_s": 0.5}
    assert decide(expected, NOTHING, played)[0] is decision


@pytest.mark.parametrize(
    ("bounds", "marks", "now", "decision"),
    [
        ((1.0, 2.0), {"since": 0.0, "until": 1.5}, 9.0, MET),
        ((1.0, 2.0), {"since": 0.0, "until": 0.97}, 9.0, UNKNOWN),
        ((1.0, 2.0), {"since": 0.0, "until": 0.5}, 9.0, VIOLATED),
        ((1.0, 2.0), {"since": 0.0, "until": 5.0}, 9.0, VIOLATED),
        ((1.0, 2.0), {"since": 0.0}, 9.0, VIOLATED),  # never closed
        ((1.0, None), {"since": 0.0}, 9.0, MET),  # not too early
        ((1.0, None), {"since": 0.0}, 0.5, UNKNOWN),
        ((1.0, 2.0), {}, 9.0, UNKNOWN),
    ],
)
def test_a_duration(
    bounds: tuple[float, float | None], marks: dict[str, float], now: float, decision: bool | None
) -> None:
    played = player()
    played.marks |= marks
    played._clock = now
    expected = {"kind": "duration", "words": "time", "lo_s": bounds[0], "hi_s": bounds[1]}
    assert decide(expected, NOTHING, played)[0] is decision


@pytest.mark.parametrize("kind", ["words", "count"])
def test_what_only_the_case_can_tell_is_never_met(kind: str) -> None:
    expected = {"kind": kind, "words": "3 of 5"}
    recorded = {"came": {1: [("MESSAGE", [("content-length", "1")], b"a")]}, "ended": []}
    assert not decidable(expected)
    assert decide(expected, recorded, player(A))[0] is VIOLATED
    met, words = decide(expected, recorded, player(B))
    assert met is UNKNOWN
    assert "on connection 1 frame 1 is MESSAGE content-length:1 b'b'" in words
    assert "it was MESSAGE content-length:1 b'a'" in words


# on the way to the decisive point


def recorded_session() -> dict[str, Any]:
    frames = [
        ("CONNECTED", [], b""),
        ("MESSAGE", [("ack", "7")], b"a"),
        ("RECEIPT", [("receipt-id", "1")], b""),
    ]
    return {"came": {1: frames}, "ended": []}


def test_a_needed_answer_that_is_missing_names_the_step_and_what_came_instead() -> None:
    played = ScriptedPlayer(ERROR, recorded=recorded_session())
    played.open(1, "stomp")
    played.send(1, b"CONNECT\n\n\0")
    with pytest.raises(Diverged) as raised:
        played.receive(1, 1, "CONNECTED", needed=True)
    assert str(raised.value) == (
        "the conversation took another course at step 3: on connection 1 CONNECTED did not"
        " arrive, unlike when this was recorded; ERROR arrived"
    )


def test_an_answer_is_found_by_what_it_is_not_by_its_number() -> None:
    played = ScriptedPlayer(b"CONNECTED\n\n\0", receipt(b"1") + A, recorded=recorded_session())
    played.open(1, "stomp")
    played.send(1, b"CONNECT\n\n\0")
    played.send(1, b"SUBSCRIBE\n\n\0")
    for count in (1, 2, 3):
        played.receive(1, count, "", needed=True)
    assert played.late == []


def test_a_message_that_cannot_be_acknowledged_is_another_course() -> None:
    played = ScriptedPlayer(recorded=recorded_session())
    played.open(1, "stomp")
    with pytest.raises(Diverged, match=r"at step 1: .* MESSAGE number 1, .* nothing arrived"):
        played.send(1, b"ACK\nid:", Ref(1, 1, "ack"), b"\n\n\0")


def test_a_connection_that_ended_too_soon_is_another_course() -> None:
    played = player(None)
    with pytest.raises(Diverged, match=r"connection ended .* broker had ended the connection"):
        played.send(1, b"SEND\n\n\0")


def test_missing_answers_share_the_patience_of_one_step() -> None:
    played = ScriptedPlayer(b"", recorded=recorded_session())
    played.open(1, "stomp")
    played.send(1, b"CONNECT\n\n\0")
    for count in (1, 2, 3):
        played.receive(1, count, "")
    assert played.now() == 10.0
    played.pause(12.0)
    assert played.now() == 12.0


# the scripts' heads and exits

HEADER = {
    "case": "units.case",
    "broker": "some-broker",
    "broker_version": "1.0",
    "detail": "it failed",
    "requirements": [
        {"id": "STOMP12-X-01", "level": "MUST", "source": "STOMP 1.2", "statement": "It works."}
    ],
    "file": "some-case.case.jsonl",
}


def talk(expected: dict[str, Any]) -> Composed:
    lines = [
        Line(0, "open", 1, {"acceptor": "stomp"}),
        Line(0, "send", 1, parts=(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0",)),
    ]
    return Composed(lines, expected, {1: []}, [], b"", ["stomp"])


@pytest.mark.parametrize("build", [scripts.raw, lambda *talk: scripts.stompy(*talk, {1: "1.2"})])
def test_the_head_promises_what_the_script_can_tell(build: Callable[..., str]) -> None:
    confirming = build(HEADER, talk(END)).partition("\nfrom ")[0]
    assert "Exit 0: what was violated is met now; 1: it is violated again; 2:" in confirming
    comparing = build(HEADER, talk({"kind": "words", "words": "it failed"})).partition("\nfrom ")[0]
    assert "Exit 0" not in comparing
    assert "Never 0" in comparing
    for head in (confirming, comparing):
        assert "pip install brokerproof" in head
        assert "brokerproof replay some-case.case.jsonl --target HOST:PORT" in head


def test_a_script_that_cannot_run_accuses_nobody(tmp_path: Path) -> None:
    script = tmp_path / "stompy.py"
    script.write_text(scripts.stompy(HEADER, talk(END), {1: "1.2"}))
    without_packages = [sys.executable, "-I", "-S", str(script), "127.0.0.1:1"]
    done = subprocess.run(without_packages, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "pip install stomp.py" in done.stdout
