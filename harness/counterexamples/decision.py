"""Judges a replayed conversation by the expectation that was recorded with it.

This file needs only Python 3.11 and ``player.py``; both are copied into every script of a
counterexample. :data:`PROMISES` lists the expectations that can be confirmed as met. For any other
expectation, a script can only recognise the recorded behaviour."""

from __future__ import annotations

import argparse
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from brokerproof.harness.counterexamples.player import Came, Diverged, Player, show

FLOOR_S = 0.05
"""A measured time this close to a bound, or within a fiftieth of the bound, decides nothing."""
VOLATILE = frozenset(
    {"message-id", "ack", "session", "timestamp", "server", "expires", "heart-beat"}
)
"""Headers whose values differ between runs without meaning anything."""

Decision = tuple[bool | None, str]
"""True if the expectation is met, False if it is violated, None if this is undecided; and a
sentence."""


def decide(expected: Mapping[str, Any], recorded: Mapping[str, Any], player: Player) -> Decision:
    """Judge what ``player`` received: by ``expected`` or, if that cannot be checked here, by
    ``recorded``."""
    judge = _JUDGES.get(expected["kind"])
    if judge is None or not decidable(expected):
        return _compare(recorded, player)
    return judge(expected, player)


def decidable(expected: Mapping[str, Any]) -> bool:
    """True if the expectation can be checked without the case, so that a script can confirm a
    fix."""
    return expected["kind"] in _JUDGES and expected.get("decidable", True)


def _frame(expected: Mapping[str, Any], player: Player) -> Decision:
    count = sum(_fits(frame, expected, player) for frame in player.came[expected["conn"]])
    number = expected["before"] + 1
    return (
        count >= number,
        f"expected {expected['words']} (number {number} of its kind), {count} arrived",
    )


def _absence(expected: Mapping[str, Any], player: Player) -> Decision:
    before = expected["before"]
    count = sum(_fits(frame, expected, player) for frame in player.came[expected["conn"]])
    number = f"no more than {before} of" if before else "no"
    return count <= before, f"expected {number} {expected['words']}, {count} arrived"


def _silence(expected: Mapping[str, Any], player: Player) -> Decision:
    met, words = _absence(expected, player)
    if expected["conn"] in player.ended:
        return False, f"{words}, and the broker ended the connection"
    return met, words


def _end(expected: Mapping[str, Any], player: Player) -> Decision:
    conn = expected["conn"]
    ended = conn in player.ended
    words = f"it ended at {player.ended[conn][0]:.3f} s" if ended else "it is still open"
    return ended, f"expected the broker to end connection {conn}, {words}"


def _open(expected: Mapping[str, Any], player: Player) -> Decision:
    conn = expected["conn"]
    if conn not in player.ended:
        return True, f"expected connection {conn} to stay open, and it did"
    frames = player.came[conn]
    last = f", after {frames[-1].line()[:200]}" if frames else ""
    at = player.ended[conn][0]
    return False, f"expected connection {conn} to stay open, it was ended at {at:.3f} s{last}"


def _messages(expected: Mapping[str, Any], player: Player) -> Decision:
    ignored = expected["ignored"]
    received = [
        frame.body
        for conn, first in expected["conns"]
        for frame in player.messages(conn)[first:]
        if frame.body not in ignored
    ]
    want = [player.renamed(body) for body in expected["want"]]
    match expected["match"]:
        case "in order":
            met = received == want
        case "in any order":
            met = Counter(received) == Counter(want)
        case _:
            met = Counter(received) >= Counter(want)
    number = f"{len(want)} messages {expected['match']}: " if want else ""
    return met, f"expected {number}{_bodies(want)}; {_bodies(received)} arrived"


def _bodies(bodies: Sequence[bytes]) -> str:
    shown = [repr(body[:30])[1:] + ("…" if len(body) > 30 else "") for body in bodies[:30]]
    more = f" and {len(bodies) - 30} more" if len(bodies) > 30 else ""
    return ", ".join(shown) + more if bodies else "no message"


def _window(expected: Mapping[str, Any], player: Player) -> Decision:
    """Check that each delivery began with fewer unsettled bytes than the window; 0 allows one
    delivery, a negative window any number."""
    conn: int = expected["conn"]
    window: int = expected["window"]
    settlements = [settled for settled in player.settled if settled.conn == conn]
    held: dict[int, int] = {}

    def is_open() -> bool:
        return window < 0 or sum(held.values()) < max(1, window)

    def settle(seen: int) -> None:
        while settlements and settlements[0].seen <= seen:
            nth = settlements.pop(0).nth
            for number in [nth, *held] if expected["cumulative"] else [nth]:
                if number <= nth:
                    held.pop(number, None)

    frames = player.messages(conn)
    for seen, frame in enumerate(frames):
        settle(seen)
        if not is_open():
            return False, (
                f"window {window}: {len(held)} messages of {sum(held.values())} bytes were held,"
                " and another one arrived"
            )
        held[seen + 1] = frame.size
    settle(len(frames))
    words = f"window {window}: {len(held)} messages of {sum(held.values())} bytes are held"
    waiting = expected["total"] - len(frames)
    if is_open() and waiting > 0:
        return False, f"{words}, {waiting} more are waiting, and none arrives"
    return True, f"{words}, {max(0, waiting)} more are waiting: as many as the window allows"


def _signs(expected: Mapping[str, Any], player: Player) -> Decision:
    """Return the gaps between heartbeats or frames after the mark ``since``."""
    low, high, since = expected["lo_s"], expected["hi_s"], player.marks.get("since")
    if since is None:
        return None, f"{expected['words']}: the first sign of life did not arrive"
    signs = [since, *(at for at in player.heard[expected["conn"]] if at > since)]
    gaps = [after - before for before, after in pairwise(signs)]
    last = player.now() - signs[-1]
    worst = max([*gaps, last])
    words = (
        f"{expected['words']}: {len(signs) - 1} signs of life, the longest gap {worst:.3f} s,"
        f" should be at most {high:g} s"
    )
    if low and gaps and min(gaps) < low - _margin(low):
        return False, f"{words}; the shortest {min(gaps):.3f} s; expected at least {low:g} s"
    if worst <= high:
        return True, words
    return (False if worst > high + _margin(high) else None), words


def _duration(expected: Mapping[str, Any], player: Player) -> Decision:
    low, high = expected["lo_s"], expected["hi_s"]
    should = f"should be between {low:g} s and {high if high else 'any time'} s"
    if "since" not in player.marks:
        return None, f"{expected['words']}: the frame it is counted from did not arrive"
    if "until" not in player.marks:
        waited = player.now() - player.marks["since"]
        words = f"{expected['words']}: nothing in {waited:.3f} s, {should}"
        return (waited >= low or None) if high is None else False, words
    value = player.marks["until"] - player.marks["since"]
    words = f"{expected['words']}: {value:.3f} s, {should}"
    if low <= value and (high is None or value <= high):
        return True, words
    margin = _margin(high or low)
    beyond = value < low - margin or (high is not None and value > high + margin)
    return (False if beyond else None), words


def _margin(bound: float) -> float:
    return max(FLOOR_S, bound / 50)


_JUDGES: Mapping[str, Callable[[Mapping[str, Any], Player], Decision]] = {
    "frame": _frame,
    "absence": _absence,
    "silence": _silence,
    "end": _end,
    "open": _open,
    "messages": _messages,
    "window": _window,
    "signs": _signs,
    "duration": _duration,
}


def _fits(frame: Came, expected: Mapping[str, Any], player: Player) -> bool:
    command, body = expected.get("command"), expected.get("body")
    if command is None or (expected["kind"] == "silence" and frame.command == "ERROR"):
        return True
    if frame.command != command or (body is not None and frame.body != player.renamed(body)):
        return False
    old, new = player.mark.decode(), player.new_mark.decode()
    headers = [
        (name, value.replace(old, new) if old else value) for name, value in expected["headers"]
    ]
    return all(frame.get(name) == value for name, value in headers)


def _compare(recorded: Mapping[str, Any], player: Player) -> Decision:
    """Compare with the recording if the expectation cannot be checked here: the same behaviour
    counts as the same violation."""
    for conn, frames in recorded["came"].items():
        came = player.came.get(int(conn), [])
        now = [_essence(frame.command, frame.headers, frame.body, player) for frame in came]
        then = [_essence(command, headers, body, None) for command, headers, body in frames]
        if now != then:
            at = next(
                (
                    place
                    for place, pair in enumerate(zip(now, then, strict=False))
                    if pair[0] != pair[1]
                ),
                min(len(now), len(then)),
            )
            was = Came(0, *frames[at]).line()[:200] if at < len(then) else "nothing more"
            this = came[at].line()[:200] if at < len(now) else "nothing more"
            return None, (
                f"on connection {conn} frame {at + 1} is {this}; when this was recorded it was"
                f" {was}. Only the case can judge whether that is correct"
            )
        if (int(conn) in player.ended) != (int(conn) in recorded["ended"]):
            words = "was ended by the broker" if int(conn) in player.ended else "is still open"
            return None, (
                f"connection {conn} {words}, otherwise than when this was recorded. Only the case"
                " can tell whether that is right"
            )
    return False, "the broker did exactly what it did when this was recorded"


def _essence(
    command: str, headers: Sequence[tuple[str, str]], body: bytes, player: Player | None
) -> tuple[str, list[tuple[str, str]], bytes]:
    """Return a frame without the parts that differ between runs."""
    if command == "ERROR":
        return command, [], b""
    new, old = (
        (player.new_mark.decode(), player.mark.decode())
        if player is not None and player.mark
        else ("", "")
    )
    kept = [
        (name, value.replace(new, old) if new else value)
        for name, value in headers
        if name not in VOLATILE
    ]
    return command, sorted(kept), body


def _endpoints(
    parser: argparse.ArgumentParser, named: Mapping[str, str], others: Sequence[str]
) -> dict[str, tuple[str, int]]:
    missing = [option for option in others if option not in named]
    if missing:
        parser.error(
            f"this conversation uses other acceptors too: add --acceptor {missing[0]}=HOST:PORT"
        )
    endpoints = {}
    for name, text in named.items():
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal():
            parser.error(f"{text!r} should be HOST:PORT")
        endpoints[name] = (host.strip("[]"), int(port))
    return endpoints


def main(
    play: Callable[[Any], None],
    expected: Mapping[str, Any],
    recorded: Mapping[str, Any],
    fields: Mapping[str, Any],
    kind: Callable[..., Player] = Player,
) -> int:
    """Play and judge the conversation of a script. Return 0 (expectation met), 1 (violated again)
    or 2 (unknown)."""
    parser = argparse.ArgumentParser(description=fields["what"])
    first, *others = fields["acceptors"]
    parser.add_argument("address", metavar="HOST:PORT", help=f"the broker's acceptor ({first})")
    parser.add_argument("--login", default="")
    parser.add_argument("--passcode", default="")
    parser.add_argument(
        "--acceptor", action="append", default=[], metavar="NAME=HOST:PORT", help=", ".join(others)
    )
    given = parser.parse_args()
    named = dict(option.partition("=")[::2] for option in given.acceptor) | {first: given.address}
    endpoints = _endpoints(parser, named, others)
    player = kind(endpoints, given.login, given.passcode, fields["mark"], None, recorded)
    try:
        play(player)
        met, words = decide(expected, recorded, player)
    except Diverged as problem:
        met, words = None, str(problem)
    except OSError as problem:
        show(f"cannot connect: {problem}")
        return 2
    except ImportError as problem:
        show(f"{problem}; install it with: pip install stomp.py")
        return 2
    except Exception:  # Python would exit with 1, which would accuse the broker
        traceback.print_exc()
        show("The script failed, which says nothing about the broker.")
        return 2
    finally:
        player.close()
    show()
    for requirement in fields["requirements"]:
        show(
            f"{requirement['id']} ({requirement['level']}, {requirement['source']}):"
            f" {requirement['statement']}"
        )
    show(f"When it was recorded: {fields['detail']}")
    show(f"Now: {words}")
    for line in player.late:
        show(f"  did not arrive this time: {line}")
    show(
        {
            True: "It arrived as expected.",
            False: "It is violated again.",
            None: "This cannot be decided here.",
        }[met]
    )
    return {True: 0, False: 1, None: 2}[met]
