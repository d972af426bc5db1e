"""One load whose recording is switched on and off: what it costs while everything else stays as it
is.

The driver runs in this process, the broker in its own. In one slice of time the driver has a tape,
in the next it has none, in the order off, on, on, off, and so on; a slice with and one without
beside it are a pair. What a machine does for longer than a slice meets both alike.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from brokerproof.harness.load import plan_builder
from brokerproof.harness.load.driver_loop import Driver
from brokerproof.harness.load.plan_builder import LoadOptions
from brokerproof.harness.load.wire_log import WireLog
from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S, Duration
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.wake_up_lateness import Canary

SETTLED: Duration = 50 * NS_PER_MS
"""Start of a slice that is not counted: messages then under way belong to the slice before."""
WARM: Duration = 3 * NS_PER_S
PATIENCE: Duration = 20 * NS_PER_S


@dataclass(frozen=True)
class Slice:
    """Messages a second, and the processor time a message of the driver, with the thread that
    writes the tape, and of the broker, in µs. A message counts half when it is confirmed and half
    when it comes: a broker may well take them in before it hands them out."""

    rate: float
    driver: float
    broker: float


def cpu_s() -> float:
    """The processor time of this process. Seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Bench:
    """A driver at work on a target that has been started. ``folder`` is for its tape;
    ``broker_cpu_s`` gives the processor time of the target's processes so far."""

    def __init__(
        self,
        target: SocketTarget,
        wishes: LoadOptions,
        folder: Path,
        broker_cpu_s: Callable[[], float],
    ) -> None:
        plan = plan_builder.plan(target, replace(wishes, messages=0), f"slices.{wishes.protocol}")
        self._world = RealWorld({}, Canary())
        self._world.moved(plan_builder.terms(target, plan.acceptor, None).endpoints)
        self._tape = WireLog(folder, lambda _: None)
        self._driver = Driver(self._world, plan, self._tape, 0)
        self._broker_cpu_s = broker_cpu_s

    def pairs(self, count: int, lasts: Duration) -> Iterable[tuple[Slice, Slice]]:
        """So many pairs of slices, without and with a tape, less those in one of which the broker
        did nothing."""
        driver = self._driver
        driver.connect(PATIENCE)
        driver.produce(self._world.now())
        self._pass(WARM)
        try:
            for number in range(count):
                ratios = {}
                for taped in (True, False) if number % 2 else (False, True):
                    driver.host.tape = self._tape if taped else None
                    ratios[taped] = self._slice(lasts)
                if ratios[False].rate and ratios[True].rate:
                    yield ratios[False], ratios[True]
        finally:
            driver.host.tape = self._tape
            driver.stop_producing()
            self._pass(NS_PER_S)
            driver.disconnect(PATIENCE)
            self._world.close()

    def _slice(self, lasts: Duration) -> Slice:
        self._pass(SETTLED)
        tally = self._driver.host.tally
        begun, before = self._world.now(), tally.received + tally.confirmed
        driver, broker = cpu_s(), self._broker_cpu_s()
        self._pass(lasts)
        driver, broker = cpu_s() - driver, self._broker_cpu_s() - broker
        took, messages = self._world.now() - begun, (tally.received + tally.confirmed - before) / 2
        us_per_message = 1e6 / max(1, messages)
        return Slice(messages * NS_PER_S / took, driver * us_per_message, broker * us_per_message)

    def _pass(self, lasts: Duration) -> None:
        def never() -> bool:
            self._driver.pump()
            return False

        self._world.wait_until(never, self._world.now() + lasts)
