"""Cost of recording a STOMP, AMQP 1.0 or AMQP 0-9-1 load: lost throughput and processor time.

``python benchmarks/recorder_overhead.py [PROTOCOL…] [--target artemis]`` starts the target and puts
one load on it for each protocol in turn. The recording is switched on and off in short slices of
time: off, on, on, off, and so on. Two consecutive slices, one with and one without recording, form
a pair, so a disturbance longer than a slice affects both alike. *The lost throughput* is the
median, over all ``--pairs``, of the loss in the slice with recording.

A slice includes all work of recording: the driver's work for the wire log, the thread that writes
the log, and the kernel's work for that thread. The driver runs in this process and the broker in
its own; neither is bound to a core. ``--rate`` limits the driver's speed. The exit code is 1 if the
median of any protocol is 10 % or more.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from brokers import cpu_s
from judge_scale import tree

from brokerproof.harness.load import plan_builder
from brokerproof.harness.load.driver_loop import Driver
from brokerproof.harness.load.plan import Sizes
from brokerproof.harness.load.plan_builder import LoadOptions
from brokerproof.harness.load.protocols import PROTOCOLS
from brokerproof.harness.load.wire_log import WireLog
from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S, Duration
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.wake_up_lateness import Canary

TARGETS = {
    "stomp": "reference-real",
    "amqp": "reference-real",
    "amqp091": "reference-rabbitmq-real",
}
WINDOWS = {"stomp": 100_000, "amqp": 200, "amqp091": 200}
"""Flow control of consumers: bytes, credit, messages."""
SETTLED: Duration = 50 * NS_PER_MS
"""This much of each slice is not counted, because messages in flight at its start belong to the
slice before."""
WARM: Duration = 3 * NS_PER_S
PATIENCE: Duration = 20 * NS_PER_S
MOST_LOST = 0.1


@dataclass(frozen=True)
class Slice:
    """Messages a second, and the processor time per message in µs of the driver (with the thread
    that writes the wire log) and of the broker. A confirmation and a delivery are half a message
    each, because a broker may accept many messages before it delivers any."""

    rate: float
    driver: float
    broker: float


class Bench:
    """A driver at work on a started target. ``folder`` is for its wire log; ``broker`` lists the
    target's processes."""

    def __init__(
        self, target: SocketTarget, options: LoadOptions, folder: Path, broker: Sequence[int]
    ) -> None:
        plan = plan_builder.plan(target, options, f"slices.{options.protocol}")
        self._world = RealWorld({}, Canary())
        self._world.moved(plan_builder.terms(target, plan.acceptor, None).endpoints)
        self._tape = WireLog(folder, lambda _: None)
        self._driver = Driver(self._world, plan, self._tape, 0)
        self._broker = broker

    def pairs(self, count: int, lasts: Duration) -> Iterable[tuple[Slice, Slice]]:
        """Yield up to ``count`` pairs of slices, without and with recording. Leave out pairs in
        which the broker was idle."""
        driver = self._driver
        driver.connect(PATIENCE)
        driver.produce(self._world.now())
        self._pass(WARM)
        try:
            for number in range(count):
                pair = {}
                for taped in (True, False) if number % 2 else (False, True):
                    driver.host.tape = self._tape if taped else None
                    pair[taped] = self._slice(lasts)
                if pair[False].rate and pair[True].rate:
                    yield pair[False], pair[True]
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
        driver, broker = time.process_time(), sum(map(cpu_s, self._broker))
        self._pass(lasts)
        driver, broker = time.process_time() - driver, sum(map(cpu_s, self._broker)) - broker
        took, messages = self._world.now() - begun, (tally.received + tally.confirmed - before) / 2
        us_per_message = 1e6 / max(1, messages)
        return Slice(messages * NS_PER_S / took, driver * us_per_message, broker * us_per_message)

    def _pass(self, lasts: Duration) -> None:
        def never() -> bool:
            self._driver.pump()
            return False

        self._world.wait_until(never, self._world.now() + lasts)


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median, the minimum, the maximum, and a 95 % confidence interval of the median."""
    ordered = sorted(values)
    count = len(ordered)
    reach = round(0.98 * count**0.5)
    """1.96 standard deviations of the number of values below the median."""
    return {
        "median": statistics.median(ordered),
        "median_low": ordered[max(0, count // 2 - reach)],
        "median_high": ordered[min(count - 1, (count - 1) // 2 + reach)],
        "least": ordered[0],
        "most": ordered[-1],
    }


def measured(
    protocol: str, target: SocketTarget, folder: Path, pairs: int, slice_ms: int, wishes: Any
) -> dict[str, Any]:
    options = LoadOptions(protocol=protocol, messages=0, seed=1, **wishes)
    bench = Bench(
        target, options, folder / "tape", [process.pid for process in tree(os.getpid())[1:]]
    )
    slices = list(bench.pairs(pairs, slice_ms * NS_PER_MS))
    name = target.identity.name
    if 2 * len(slices) < pairs:
        raise SystemExit(
            f"{protocol} on {name}: no messages passed in most slices, so nothing was measured"
        )
    without, with_ = (
        statistics.median(part.driver for part in side) for side in zip(*slices, strict=True)
    )
    return {
        "protocol": protocol,
        "target": name,
        "pairs": len(slices),
        "lost": spread([1 - taped.rate / plain.rate for plain, taped in slices]),
        "rate": statistics.median(plain.rate for plain, _ in slices),
        "driver_us": [without, with_],
        "driver_more_us": statistics.median(taped.driver - plain.driver for plain, taped in slices),
        "broker_us": statistics.median(part.broker for pair in slices for part in pair),
    }


def words(report: dict[str, Any]) -> str:
    lost, (without, with_) = report["lost"], report["driver_us"]
    return (
        f"{report['protocol']} on {report['target']}, {report['pairs']} pairs:"
        f" lost throughput {lost['median']:.1%} (95 %: {lost['median_low']:.1%} to"
        f" {lost['median_high']:.1%}; all {lost['least']:.1%} to {lost['most']:.1%})\n"
        f"  {report['rate']:,.0f} messages/s without; µs of processor time a message: driver"
        f" {without:.1f} without and {with_:.1f} with, pair by pair {report['driver_more_us']:.1f}"
        f" more; broker {report['broker_us']:.1f}"
    )


@click.command(help=(__doc__ or "").partition("\n\n")[2])
@click.argument("protocols", nargs=-1, type=click.Choice(list(PROTOCOLS)))
@click.option("--target", "name", help=f"Default: {TARGETS}.")
@click.option("--pairs", default=50, show_default=True, help="Number of pairs of slices.")
@click.option("--slice-ms", default=300, show_default=True)
@click.option("--size", default="1k", show_default=True, help="Bytes of a body.")
@click.option("--window", default=0, help="Default: 100000 bytes in STOMP, 200 messages elsewhere.")
@click.option("--rate", default=0, help="Messages a second; default: as fast as possible.")
@click.option("--json", "to_json", is_flag=True, help="Print one JSON object.")
def main(
    protocols: Sequence[str],
    name: str | None,
    pairs: int,
    slice_ms: int,
    size: str,
    window: int,
    rate: int,
    to_json: bool,
) -> None:
    host = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    if not to_json:
        print(host, flush=True)
    reports = []
    for protocol in protocols or PROTOCOLS:
        target = target_file.load(name or TARGETS[protocol])
        if not isinstance(target, SocketTarget):
            raise SystemExit(f"{target.identity.name} runs in virtual time; name one with sockets")
        wishes = {"sizes": Sizes.read(size), "window": window or WINDOWS[protocol], "rate": rate}
        with tempfile.TemporaryDirectory(prefix="brokerproof-overhead-") as folder:
            try:
                target.start(Path(folder) / "logs")
                reports.append(measured(protocol, target, Path(folder), pairs, slice_ms, wishes))
            finally:
                target.stop()
        if not to_json:
            print(words(reports[-1]), flush=True)
    if to_json:
        print(json.dumps(host | {"protocols": reports}))
    sys.exit(any(report["lost"]["median"] >= MOST_LOST for report in reports))


if __name__ == "__main__":
    main()
