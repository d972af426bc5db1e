"""Steps for stomp.py cases: text to escape, descriptions of messages, heartbeat checks."""

from hypothesis import strategies as st

from brokerproof.harness.clients.stomppy_peer import StompPyPeer
from brokerproof.suites.api import Bench, Duration
from brokerproof.suites.steps.traces import signs_of_life

NEIGHBOURS = ("n", "c", "r", "t", "\\n", "\\c", "\\\\", " ", "é", "€", "𝄞", "a", "0", "/", "=")
"""Texts that look like an escape, and characters of one to four bytes."""


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw text with every character that must be escaped, beginning and ending with a letter."""
    pieces = draw(st.lists(st.sampled_from(("\\", "\n", ":", *NEIGHBOURS)), max_size=8))
    return "<" + "".join(draw(st.permutations(["\\", "\n", ":", *pieces]))) + ">"


def named(numbers: list[int]) -> str:
    """Return the messages with these numbers as the subject of a sentence."""
    if not numbers:
        return "none was"
    listed = ", ".join(f"m{number}" for number in numbers)
    return f"{listed} was" if len(numbers) == 1 else f"{listed} were"


def judge_beats(
    target: Bench, peer: StompPyPeer, requirements: tuple[str, ...], period: Duration
) -> bool:
    """Judge the server's longest silence while stomp.py was connected with heartbeats."""
    agreed, at_least = requirements
    until = target.now() if peer.left is None else peer.left.at
    if peer.ended is not None:
        until = min(until, peer.ended.at)
    marks = signs_of_life(target, peer)
    detail = f"stomp.py sent STOMP; {len(marks) - 1} signs of life arrived after CONNECTED"
    target.record_finding(agreed, len(marks) > 1, detail)
    label = "longest silence of the server"
    return target.judge_period(at_least, label, marks, (0, period), until=until)
