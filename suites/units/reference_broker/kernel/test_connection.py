"""A peer that does not read gets no messages: they wait in their queue, or go to somebody who
reads."""

from brokerproof.harness.model.broker_io import Input, WritePaused, WriteResumed
from brokerproof.suites.units.drivers.broker import Driver, bodies, send, subscribe


def consuming(*conns: int) -> Driver:
    """A broker with a producer, 1, and consumers of q; 2 is slow."""
    driver = Driver()
    for conn in (1, *conns):
        driver.connect(conn)
    for conn in conns:
        driver.feed(conn, subscribe())
    return driver


def got(driver: Driver, event: Input, conn: int = 2) -> list[str]:
    return bodies(driver.note(driver.broker.handle(0, event)), conn)


def test_messages_wait_for_a_slow_peer_in_their_order() -> None:
    broker = consuming(2)
    assert bodies(broker.feed(1, send("a")), 2) == ["a"]
    assert broker.broker.handle(0, WritePaused(2)) == []
    assert broker.feed(1, send("b") + send("c")) == []
    assert broker.feed(1, send("d")) == []
    assert got(broker, WriteResumed(2)) == ["b", "c", "d"]
    assert bodies(broker.feed(1, send("e")), 2) == ["e"]


def test_others_get_what_a_slow_peer_does_not() -> None:
    broker = consuming(2, 3)
    broker.broker.handle(0, WritePaused(2))
    assert bodies(broker.feed(1, send("a") + send("b") + send("c")), 3) == ["a", "b", "c"]
    assert broker.broker.handle(0, WriteResumed(2)) == []
    out = broker.feed(1, send("d") + send("e"))
    assert sorted(bodies(out, 2) + bodies(out, 3)) == ["d", "e"]
    assert len(bodies(out, 2)) == 1


def test_a_slow_peer_that_leaves_takes_nothing_with_it() -> None:
    broker = consuming(2)
    broker.connect(3)
    broker.broker.handle(0, WritePaused(2))
    assert broker.feed(1, send("a")) == []
    assert broker.gone(2) == []
    assert broker.broker.handle(0, WriteResumed(2)) == []
    assert bodies(broker.feed(3, subscribe()), 3) == ["a"]
