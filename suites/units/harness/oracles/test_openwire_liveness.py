"""The interval in which ActiveMQ closes a silent OpenWire connection."""

from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.model.time import ms
from brokerproof.harness.oracles.openwire_liveness import (
    agreed_ms,
    longest_silence,
    silence_interval,
)
from brokerproof.suites.units.drivers.broker import patient


@given(st.integers(1, 10**6), st.integers(0, 10**6))
@patient
def test_the_interval_of_silence(duration: int, delay: int) -> None:
    low, high = silence_interval(duration, delay)
    assert low == ms(duration) == longest_silence(duration)
    assert high >= 3 * low
    assert high - ms(2 * duration) == ms(max(duration, delay))
    assert agreed_ms(duration, delay) == agreed_ms(delay, duration) <= duration
