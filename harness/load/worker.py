"""A driver as a process (``python -m brokerproof.harness.load.worker HOST:PORT TOKEN``) or as a
cluster task that calls :func:`work`.

The driver connects to the conductor, receives its part, reports progress, and ends on request or
when the conductor disconnects. Before and after the load, the two compare their clocks
(:mod:`brokerproof.harness.load.clocks`)."""

import os
import platform
import resource
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from brokerproof.harness.load import clocks
from brokerproof.harness.load.control_channel import ControlConnection
from brokerproof.harness.load.driver_loop import Driver
from brokerproof.harness.load.plan import Plan
from brokerproof.harness.load.segment_backlog import SegmentBacklog
from brokerproof.harness.load.trace_writer import LogHeader
from brokerproof.harness.model.time import NS_PER_S, Duration
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.tls import Tls
from brokerproof.harness.worlds.wake_up_lateness import Canary
from brokerproof.harness.worlds.world import Unreachable

TELL_EVERY: Duration = NS_PER_S // 2
PATIENCE: Duration = 20 * NS_PER_S
LONG: Duration = 10**6 * NS_PER_S
"""Eleven days; a wait cannot last longer than twice that."""


class Worker:
    def __init__(self, address: str, token: str) -> None:
        self._canary = Canary()
        self._world = RealWorld({}, self._canary)
        host, _, port = address.rpartition(":")
        self._messages: list[dict[str, Any]] = []
        self._gone = False
        connection = socket.create_connection((host, int(port)), timeout=PATIENCE / NS_PER_S)
        self._wire = ControlConnection(self._world, connection, self._messages.append, self._lost)
        self._wire.say(hello=token, host=platform.node(), boot=clocks.boot(), pid=os.getpid())
        self._driver: Driver | None = None
        self._backlog: SegmentBacklog | None = None
        self._start_cpu_s = 0.0

    def run(self) -> int:
        """Run the driver to the end; return the exit code."""
        try:
            part = self._next("part")
            readings = [self._compare_clocks()]
            self._wire.say(clock=readings[0].data())
            self._driver = driver = self._made(part, self._next("clock")["clock"])
            self._canary.start()
            try:
                driver.connect(PATIENCE)
            except Unreachable as problem:
                self._abandon(driver)
                self._wire.say(failed=str(problem))
                return 3
            self._start_cpu_s = _cpu_s()
            self._wire.say(ready=True)
            driver.produce(self._next("go")["go"])
            self._tell(driver)
            self._world.wait_until(self._over, self._world.now() + LONG)
            driver.disconnect(PATIENCE)
            readings.append(self._compare_clocks())
            self._wire.say(result=self._result(driver), clock=readings[1].data())
            self._world.wait_until(lambda: self._gone, self._world.now() + PATIENCE)
        except _Gone:
            if self._driver is not None:
                self._abandon(self._driver)
            return 5
        except OSError as problem:  # errors of files; connection failures are no errors here
            where = problem.filename or "the recording"
            self._wire.say(
                failed=(
                    f"{where}: cannot be written on {platform.node()}"
                    f" ({problem.strerror or problem})"
                )
            )
            return 3
        finally:
            if self._canary.running:
                self._canary.stop()
            self._world.close()
        return 0

    # the conversation

    def _lost(self) -> None:
        self._gone = True

    def _next(self, what: str) -> dict[str, Any]:
        """Return the next message, which must be of that kind. Raises :class:`_Gone` if none
        arrives."""
        self._world.wait_until(lambda: bool(self._messages) or self._gone, self._world.now() + LONG)
        if not self._messages:
            raise _Gone
        message = self._messages.pop(0)
        if "leave" in message or what not in message:
            raise _Gone
        return message

    def _compare_clocks(self) -> clocks.ClockSample:
        offsets = []
        for _ in range(clocks.TIMES):
            self._wire.say(ping=self._world.now())
            answer = self._next("pong")
            offsets.append(clocks.Exchange(answer["pong"], answer["at"], self._world.now()))
        return clocks.ClockSample.of(offsets)

    def _tell(self, driver: Driver) -> None:
        if not self._gone:
            self._wire.say(progress=driver.progress())
            self._world.at(self._world.now() + TELL_EVERY, lambda: self._tell(driver))

    def _over(self) -> bool:
        assert self._driver is not None
        while self._messages:
            message = self._messages.pop(0)
            if "stop" in message:
                self._driver.stop_producing()
                self._wire.say(progress=self._driver.progress())
            elif "endpoints" in message:
                self._world.moved(_endpoints(message["endpoints"]))
            elif "leave" in message:
                return True
        self._driver.pump()
        return self._gone

    # the driver

    def _made(self, part: dict[str, Any], offset: Duration) -> Driver:
        part_plan = part["part"]
        tls = {
            name: Tls(
                Path(tls["authority"]) if tls["authority"] else None,
                verify=tls["verify"],
                own=Path(tls["own"]) if tls["own"] else None,
                certificates=Path(tls["certificates"]) if tls["certificates"] else None,
            )
            for name, tls in part_plan["tls"].items()
        }
        self._world.moved(_endpoints(part_plan["endpoints"]), tls)
        if part_plan["record"] is not None:
            record = dict(part_plan["record"])
            most = record.pop("backlog")
            self._backlog = SegmentBacklog(LogHeader(**record, offset_ns=offset), most)
        tape = None if self._backlog is None else self._backlog.tape
        return Driver(self._world, Plan.of(part_plan["plan"]), tape, part_plan["first"], offset)

    def _abandon(self, driver: Driver) -> None:
        """End a load that was abandoned, but keep its recording."""
        driver.disconnect(PATIENCE)
        if self._backlog is not None:
            self._backlog.finish()

    def _result(self, driver: Driver) -> dict[str, Any]:
        result = driver.progress()
        result["cpu_s"], result["start_cpu_s"] = _cpu_s() - self._start_cpu_s, self._start_cpu_s
        result["canary"] = {
            "p99_ns": self._canary.quantile(0.99),
            "worst_ns": self._canary.quantile(1.0),
        }
        if self._backlog is not None:
            begun = self._world.now()
            result["scribe"] = self._backlog.finish()
            result["scribe"]["after_ns"] = self._world.now() - begun
        return result


def _endpoints(endpoints: Mapping[str, Sequence[Any]]) -> dict[str, tuple[str, int]]:
    return {name: (str(host), int(port)) for name, (host, port) in endpoints.items()}


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class _Gone(Exception):
    """The conductor disconnected or asked us to end."""


def work(address: str, token: str) -> int:
    """Run a driver. Return 0 for a finished load, 3 if the broker refuses us or recording fails, 5
    if the conductor is lost."""
    try:
        worker = Worker(address, token)
    except OSError:  # the conductor disconnected before we connected
        return 5
    return worker.run()


def main(arguments: list[str]) -> int:
    """The arguments are HOST:PORT and TOKEN."""
    return work(arguments[0], arguments[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
