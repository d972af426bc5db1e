"""Clocks that run faster than the host's: their effect on a world, its canary and its limits."""

import threading
from contextlib import closing

import pytest

from brokerproof.harness.model.cost_limits import Limits
from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.worlds.bounds import LimitReached, RunBounds
from brokerproof.harness.worlds.host_clock import HostClock
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.wake_up_lateness import Canary

HOUR = 3600


def test_a_world_waits_on_its_own_clock() -> None:
    """An hour at a rate of 36,000 is a tenth of a second; on the host's clock the test would not
    end."""
    clock = HostClock(36_000)
    with closing(RealWorld({}, Canary(), host_clock=clock)) as world:
        began = world.now()
        assert not world.wait_until(lambda: False, began + seconds(HOUR))
        assert world.now() - began >= seconds(HOUR)


def test_a_duration_of_the_host_is_longer_on_a_faster_clock() -> None:
    clock = HostClock(10)
    assert clock.of_host(ms(30)) == ms(300)
    assert clock.waiting_s(seconds(60)) == 6.0
    assert HostClock().of_host(ms(30)) == ms(30)
    with closing(RealWorld({}, Canary(), host_clock=clock)) as world:
        assert world.of_host(ms(1)) == ms(10)


def test_an_instant_of_a_faster_clock_is_one_of_the_host() -> None:
    clock = HostClock(10)
    earlier = HostClock().now()
    assert earlier <= clock.on_host(clock.now()) <= HostClock().now()


def test_the_time_of_a_case_is_the_hosts() -> None:
    """A limit of one second ends a case after a second on the host's clock, not on the accelerated
    one."""
    bounds = RunBounds(Limits(case_seconds=1), HostClock(1000))
    began = bounds.now()
    with closing(RealWorld({}, Canary(), bounds=bounds, host_clock=bounds.host_clock)) as world:
        with pytest.raises(LimitReached, match="longer than 1 s"):
            world.wait_until(lambda: False, began + seconds(HOUR))
        assert world.now() - began >= seconds(1000)


class LateBroker:
    """The threads of a broker, one of which waits this long for a core between any two readings."""

    def __init__(self, waited: int) -> None:
        self._waited = waited

    def worst(self) -> int:
        return self._waited


@pytest.mark.parametrize("rate", [1, 10])
def test_lateness_is_measured_on_the_clock_of_the_target(rate: int) -> None:
    clock = HostClock(rate)
    since = clock.now()
    canary = Canary(LateBroker(ms(5)), host_clock=clock)  # type: ignore[arg-type]
    assert canary.worst(clock.now() + seconds(HOUR)) == 0
    # Each call checks the broker again, and its waits within a short time add up.
    assert canary.worst(since, since + seconds(HOUR)) == 2 * ms(5) * rate
    assert canary.worst(since) == 3 * ms(5) * rate


def test_a_canary_that_ran_knows_its_worst_on_the_clock_of_the_target() -> None:
    slow, fast = Canary(), Canary(host_clock=HostClock(1000))
    for canary in (slow, fast):
        canary.start()
    threading.Event().wait(0.1)
    for canary in (slow, fast):
        canary.stop()
    assert fast.quantile(1.0) % 1000 == 0
    assert fast.quantile(1.0) > 0
