"""Inputs can be replayed, and closed connections leave no state."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.model.broker_io import BytesReceived, PeerGone, TimerFired
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import seconds
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.fuzz.speakers import FAMILIES
from brokerproof.suites.units.drivers.broker import Driver, patient


@patient
@given(st.randoms(use_true_random=False), st.integers(0, 30), st.integers(0, 5))
def test_the_same_inputs_give_the_same_effects(random: Random, count: int, step: int) -> None:
    """A recording can be replayed, because only the inputs and their instants matter."""
    frame = FAMILIES["artemis"][0].frame
    script = [(random.randrange(4), random.choice((None, frame(random)))) for _ in range(count)]

    def play() -> list[object]:
        driver = Driver()
        for conn in range(4):
            driver.connect(conn)
        out: list[object] = []
        for n, (conn, data) in enumerate(script):
            now = seconds(n * step)
            event = TimerFired() if data is None else BytesReceived(conn, data)
            out.append(driver.broker.handle(now, event))
        return out

    assert play() == play()


def test_input_for_connections_that_are_not_there() -> None:
    broker = create_broker(Settings())
    assert broker.handle(0, BytesReceived(5, b"x")) == []
    assert broker.handle(0, PeerGone(5, CloseHow.RESET)) == []
    assert broker.handle(0, TimerFired()) == []
    assert broker.next_deadline() is None
