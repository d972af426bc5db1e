"""Cost of recording a load: throughput lost, and processor time, of STOMP, AMQP 1.0 and AMQP
0-9-1.

``python benchmarks/recorder_overhead.py [PROTOCOL…] [--target artemis]`` starts the target and,
protocol by protocol,

* drives it with one load whose recording is switched on and off in short slices
  (``recorder_on_and_off.py``). The median over ``--pairs`` of what a slice with recording lost
  against the one beside it is *the lost throughput*;
* drives it with ``--whole`` pairs of whole loads as ``brokerproof load`` does, with and without
  recording, in changing order. They say what whole loads lost (few and long, so a noisy machine
  shows in them more), and what making segments took then.

A slice sees all that recording does while a load lasts: what the driver does for its tape, the
thread that writes it, and what the kernel does for that thread. By default nobody is bound to a
core: the driver takes one, the broker another (Artemis: the others), and what the machine does
besides, such as writing pages to the disk, gets what is left. The first line says how many there
are. ``--pin BROKER,DRIVER,TAPE`` binds the broker's processes, the driver, and the thread that
writes its tape to these cores (numbers of ``taskset``): with ``0,1,1`` no core is free for
recording, with ``0,0,1`` one is. With ``--rate`` the driver is no longer as fast as it can be, so
that its own core has time left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from comparison import cpu_s
from judge_scale import tree
from recorder_on_and_off import Bench, Slice

from brokerproof.harness.load import summary
from brokerproof.harness.load.local_drivers import LocalDrivers
from brokerproof.harness.load.plan import Sizes
from brokerproof.harness.load.plan_builder import LoadOptions
from brokerproof.harness.load.protocols import PROTOCOLS
from brokerproof.harness.load.session import Session
from brokerproof.harness.model.time import NS_PER_MS
from brokerproof.harness.results import run_folder
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import TargetFacts

TARGETS = {
    "stomp": "reference-real",
    "amqp": "reference-real",
    "amqp091": "reference-rabbitmq-real",
}
WINDOWS = {"stomp": 100_000, "amqp": 200, "amqp091": 200}
"""Flow control of consumers: bytes, credit, messages."""
TAPE_THREAD = "brokerproof-tape"
"""The thread's name in :mod:`brokerproof.harness.load.wire_log`."""
MOST_LOST = 0.1


@dataclass(frozen=True)
class Whole:
    """One whole load: messages a second, driver and making segments in µs of the processor a
    message, and how long that took after the load in seconds."""

    rate: float
    driver: float
    segments: float
    after_s: float


@dataclass(frozen=True)
class Costs:
    """Processor time a message, in µs: of the broker, of the driver without a tape, and what a tape
    adds. Unlike rates it hardly depends on what else the machine does. A tape costs the broker
    nothing."""

    broker: float
    driver: float
    tape: float

    @classmethod
    def of(cls, slices: Sequence[tuple[Slice, Slice]]) -> Costs:
        """Return medians: a slice in which another program empties the caches costs twice as
        much."""
        return cls(
            statistics.median(part.broker for pair in slices for part in pair),
            statistics.median(without.driver for without, _ in slices),
            statistics.median(with_.driver - without.driver for without, with_ in slices),
        )

    @property
    def lost_on_one_core(self) -> float:
        """The part of the throughput that a tape costs where broker and driver share a core."""
        return self.tape / (self.broker + self.driver + self.tape)

    @property
    def lost_with_a_core_each(self) -> float:
        """The part that it costs where the broker has a core, and driver and tape have another."""
        slower = max(self.broker, self.driver)
        return 1 - slower / max(self.broker, self.driver + self.tape)


class Standing(SocketTarget):
    """A target that runs already: starting and stopping it again does nothing."""

    def __init__(self, running: SocketTarget, facts: TargetFacts) -> None:
        super().__init__(running.identity, running.config)
        self.endpoints, self.tls, self.canary = running.endpoints, running.tls, running.canary
        self._facts, self.provide = facts, running.provide  # type: ignore[method-assign]

    def start(self, folder: Path) -> TargetFacts:
        return self._facts

    def stop(self) -> None:
        pass


def whole(target: Standing, wishes: LoadOptions, folder: Path, *, record: bool) -> Whole:
    """One load from its beginning to its end."""
    run_folder.create(folder, command=[], seed=wishes.seed, effort="load")
    session = Session(target, wishes, LocalDrivers(), folder, record=record)
    report = summary.data(session, session.run(None, lambda _: False))
    if not summary.complete(report):
        raise SystemExit(f"a load did not go through, so it measures nothing: {report}")
    us_per_message = 1e6 / report["sent"]
    recorder = report["recorder"] or {"cpu_s": 0.0, "after_s": 0.0}
    rate = report["received"] / report["seconds"]
    return Whole(
        rate,
        report["driver_cpu_s"] * us_per_message,
        recorder["cpu_s"] * us_per_message,
        recorder["after_s"],
    )


def measured(
    protocol: str,
    target: Standing,
    folder: Path,
    options: argparse.Namespace,
    say: Callable[[str], None],
) -> Any:
    """Everything about one protocol."""
    wishes = LoadOptions(
        protocol=protocol,
        messages=options.messages,
        sizes=Sizes.read(options.size),
        window=options.window or WINDOWS[protocol],
        rate=options.rate,
        seed=1,
    )
    broker = tree(os.getpid())[1:]
    bench = Bench(target, wishes, folder / "tape", lambda: sum(map(cpu_s, broker)))
    if options.pin:
        pin_tape(options.pin[2])
    slices: list[tuple[Slice, Slice]] = list(
        bench.pairs(options.pairs, options.slice_ms * NS_PER_MS)
    )
    if 2 * len(slices) < options.pairs:
        raise SystemExit(
            f"{protocol} on {target.identity.name}: nothing passed in most slices, so nothing is"
            " measured"
        )
    lost = [1 - with_.rate / without.rate for without, with_ in slices]
    drivers = [
        statistics.median(figures.driver for figures in side) for side in zip(*slices, strict=True)
    ]
    more = statistics.median(with_.driver - without.driver for without, with_ in slices)
    say(
        f"{protocol} on {target.identity.name}, {options.size} each, {len(slices)} pairs of"
        f" {options.slice_ms} ms:"
    )
    say(f"  lost throughput: {words(lost)}")
    say(
        f"  {statistics.median(part.rate for part, _ in slices):,.0f} messages/s without; µs of the"
        " driver a message"
    )
    say(
        f"  {drivers[0]:.1f} without and {drivers[1]:.1f} with, pair by pair {more:.1f} more"
        " (median)"
    )
    costs = Costs.of(slices)
    say(
        f"  the broker {costs.broker:.1f}; so recording costs {costs.lost_on_one_core:.1%} of the"
        f" throughput where all share a core, {costs.lost_with_a_core_each:.1%} where the broker"
        " has its own"
    )
    report: dict[str, Any] = {
        "protocol": protocol,
        "target": target.identity.name,
        "lost_throughput": lost_of(lost),
        "driver_us": drivers,
        "driver_more_us": more,
        "costs": asdict(costs),
        "lost_on_one_core": costs.lost_on_one_core,
        "lost_with_a_core_each": costs.lost_with_a_core_each,
        "rate": statistics.median(part.rate for part, _ in slices),
    }
    loads: list[tuple[Whole, Whole]] = []
    for number in range(options.whole):
        values = {}
        for record in (True, False) if number % 2 else (False, True):
            values[record] = whole(target, wishes, folder / f"{number}-{record}", record=record)
        loads.append((values[False], values[True]))
    if loads:
        lost = [1 - with_.rate / without.rate for without, with_ in loads]
        segments = statistics.median(with_.segments for _, with_ in loads)
        after = statistics.median(with_.after_s for _, with_ in loads)
        say(f"  {len(loads)} pairs of whole loads of {options.messages:,}: lost {words(lost)}")
        say(
            f"  segments were made afterwards: {after:.1f} s, {segments:.1f} µs of the processor a"
            " message"
        )
        report |= {"whole_lost": lost_of(lost), "segments_us": segments, "after_s": after}
    return report


def pin_process(pid: int, core: int) -> None:
    """Bind all threads of a process to a core; those that they start inherit it."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), {core})


def pin_tape(core: int) -> None:
    """Bind the threads of this process that write tapes to a core."""
    for thread in threading.enumerate():
        if thread.name == TAPE_THREAD and thread.native_id is not None:
            os.sched_setaffinity(thread.native_id, {core})


def cores(text: str) -> tuple[int, int, int]:
    """Read the value of ``--pin``. Raises :class:`argparse.ArgumentTypeError`."""
    parts = text.split(",")
    available = os.sched_getaffinity(0)
    if len(parts) != 3 or not all(part.isdecimal() and int(part) in available for part in parts):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not BROKER,DRIVER,TAPE, three of the cores {sorted(available)}"
        )
    broker, driver, tape = map(int, parts)
    return broker, driver, tape


def lost_of(values: Sequence[float]) -> dict[str, float]:
    """Median, quartiles, ends, and how sure the median is: the middle 95 % of where the median of
    so many could be."""
    ordered = sorted(values)
    count = len(ordered)
    reach = round(
        0.98 * count**0.5
    )  # 1.96 standard deviations of how many of them are below the median
    low, high = max(0, count // 2 - reach), min(count - 1, (count - 1) // 2 + reach)
    quarters = statistics.quantiles(ordered, n=4) if count > 1 else [ordered[0]] * 3
    return {
        "median": statistics.median(ordered),
        "median_low": ordered[low],
        "median_high": ordered[high],
        "quarter": quarters[0],
        "three_quarters": quarters[2],
        "least": ordered[0],
        "most": ordered[-1],
    }


def words(values: Sequence[float]) -> str:
    """Return the result in words."""
    losses = lost_of(values)
    return (
        f"median {losses['median']:.1%} (95 %: {losses['median_low']:.1%} to"
        f" {losses['median_high']:.1%}), half of all {losses['quarter']:.1%} to"
        f" {losses['three_quarters']:.1%}, all {losses['least']:.1%} to {losses['most']:.1%}"
    )


def main() -> int:
    """Exit 1 when the median of the throughput that slices lost is 10 % or more in any protocol."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("protocols", nargs="*", choices=[*PROTOCOLS, []], help="default: all")
    parser.add_argument(
        "--target",
        help=f"default: {', '.join(f'{name} {profile}' for name, profile in TARGETS.items())}",
    )
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--slice-ms", type=int, default=300)
    parser.add_argument("--whole", type=int, default=2)
    parser.add_argument("--messages", type=int, default=40_000, help="of a whole load")
    parser.add_argument("--size", default="1k")
    parser.add_argument(
        "--window",
        type=int,
        default=0,
        help="default: 100000 bytes in STOMP, 200 messages elsewhere",
    )
    parser.add_argument(
        "--rate", type=int, default=0, help="messages a second (default: as fast as it goes)"
    )
    parser.add_argument(
        "--pin",
        type=cores,
        metavar="BROKER,DRIVER,TAPE",
        help="bind them to these cores, such as 0,1,1 (default: nobody is bound)",
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    def say(line: str) -> None:
        if not options.json:
            print(line, flush=True)

    say(f"{os.cpu_count()} cores, load of the machine {os.getloadavg()[0]:.1f}")
    reports = []
    for protocol in options.protocols or PROTOCOLS:
        name = options.target or TARGETS[protocol]
        target = target_file.load(name)
        if not isinstance(target, SocketTarget):
            raise SystemExit(f"{name} runs in virtual time; name a target with sockets")
        with tempfile.TemporaryDirectory(prefix="brokerproof-overhead-") as temporary:
            folder = Path(temporary)
            try:
                standing = Standing(target, target.start(folder / "logs"))
                if options.pin:
                    broker, driver, _ = options.pin
                    pin_process(os.getpid(), driver)
                    for pid in tree(os.getpid())[1:]:
                        pin_process(pid, broker)
                reports.append(measured(protocol, standing, folder, options, say))
            finally:
                target.stop()
    if options.json:
        print(json.dumps({"cores": os.cpu_count(), "protocols": reports}))
    return int(any(result["lost_throughput"]["median"] >= MOST_LOST for result in reports))


if __name__ == "__main__":
    sys.exit(main())
