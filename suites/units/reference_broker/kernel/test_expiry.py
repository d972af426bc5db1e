"""Expiring messages: the headers that set the expiry, its instant, and what remains."""

import pytest

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.message import Entry, Envelope, Message
from brokerproof.reference_broker.kernel.queue import Queue, RoundRobin

ANY = RoutingType.ANYCAST


class Taker:
    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def has_room(self) -> bool:
        return True

    def deliver(self, entry: Entry) -> None:
        self.entries.append(entry)

    def wait_for(self, batch: int) -> None:
        raise AssertionError("nothing is stored here")


def message(*expires: str) -> Message:
    return Message(
        1, Envelope("a", "a", ANY, tuple(("expires", text) for text in expires), False), b""
    )


def queue_at(instant: int | None) -> Queue:
    queue = Queue("q", ANY, RoundRobin(), 0, lambda queue, entry: None)
    queue.clock = None if instant is None else lambda: instant
    return queue


@pytest.mark.parametrize(
    ("expires", "instant"),
    [((), 0), (("0", "7"), 0), (("7", "0"), 7), (("x",), 0), (("-1",), -1), (("1.5",), 0)],
)
def test_the_first_header_expires_is_the_instant(expires: tuple[str, ...], instant: int) -> None:
    assert message(*expires).expires == instant


@pytest.mark.parametrize("never", ["0", "-1", "-9223372036854775808"])
def test_an_instant_that_is_not_above_0_is_never(never: str) -> None:
    queue, taker = queue_at(2**63), Taker()
    queue.enqueue(message(never))
    queue.add_consumer(taker)
    assert len(taker.entries) == 1
