"""Shares of a turn, and connections whose closes are spread over turns."""

from collections.abc import Callable
from functools import partial

import pytest

from brokerproof.reference_broker.runtime import turns as turns_
from brokerproof.reference_broker.runtime.turns import Turns


class Loop:
    def __init__(self) -> None:
        self._next: list[Callable[[], None]] = []

    def in_next_turn(self, call: Callable[[], None]) -> None:
        self._next.append(call)

    def turn(self) -> None:
        calls, self._next = self._next, []
        for call in calls:
            call()


def test_connections_that_send_without_a_pause_share_a_turn() -> None:
    loop = Loop()
    turns = Turns(loop.in_next_turn)

    def shares(busy: int) -> list[int]:
        shares = [turns.share(True) for _ in range(busy)]
        loop.turn()
        return shares

    assert shares(1) == [turns_.MOST_NS]
    shares(20)
    assert sum(shares(20)) == turns_.TURN_NS
    assert turns.share(False) == turns_.TURN_NS // 20
    shares(1000)
    assert set(shares(1000)) == {turns_.LEAST_NS}


def test_peers_that_leave_at_once_depart_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    now = 0
    departed: list[int] = []

    def leave(peer: int) -> None:
        nonlocal now
        now += turns_.MOST_NS // 2
        departed.append(peer)

    monkeypatch.setattr(turns_.time, "thread_time_ns", lambda: now)
    turns = Turns(loop.in_next_turn)
    for peer in range(5):
        turns.depart(partial(leave, peer))
    assert departed == [0, 1], "a turn has its share for all of them"
    loop.turn()
    assert departed == [0, 1, 2, 3]
    turns.depart(partial(leave, 5))
    assert departed == [0, 1, 2, 3], "none before those that wait"
    for _ in range(3):
        loop.turn()
    assert departed == [0, 1, 2, 3, 4, 5]
    loop.turn()
    turns.depart(partial(leave, 6))
    assert departed[-1] == 6, "at once when none waits"
