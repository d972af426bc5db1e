"""What recording a load costs: the same load with and without it, in turns, on one target.

``python benchmarks/recorder_overhead.py [--target artemis] [--protocol amqp]`` starts the target once and drives it with
``--runs`` pairs of loads of ``--messages`` each. Within a pair the order changes, so that what the machine does meanwhile
meets both alike. It prints the throughput and the processor time a message of each, and the ratios pair by pair: of wall time,
which is what a load loses, and of the processor time of drivers, scribes and broker together, which says what it would lose on
a machine that has no core to spare.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from harness import run_folder
from harness.load import told as telling
from harness.load.crew import LocalCrew
from harness.load.plan import Sizes
from harness.load.session import Session
from harness.load.setting import Wishes
from harness.targets import target_file
from harness.targets.sockets import SocketTarget
from harness.targets.target import TargetFacts

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Run:
    """One load: messages a second, and processor time a message in µs."""

    rate: float
    driver: float
    scribe: float
    broker: float

    @property
    def processor(self) -> float:
        """Of everybody."""
        return self.driver + self.scribe + self.broker


def children() -> dict[int, float]:
    """Processor time by process id of all processes below this one. Seconds."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                fields = (each / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(each.name)] = int(fields[1])
            used[int(each.name)] = (int(fields[11]) + int(fields[12])) / TICKS
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return {pid: used[pid] for pid in mine - {os.getpid()} if pid in used}


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


def one(target: Standing, wishes: Wishes, folder: Path, *, record: bool, broker: set[int]) -> Run:
    """One load; ``broker`` are the ids of the broker's processes."""
    run_folder.create(folder, command=[], seed=wishes.seed, effort="load")
    before = children()
    session = Session(target, wishes, LocalCrew(), folder, record=record)
    outcome = session.run(None, lambda _: False)
    after = children()
    told = telling.data(session, outcome)
    if not telling.complete(told):
        raise SystemExit(f"a load did not go through, so it measures nothing: {told}")
    each = 1e6 / told["sent"]
    recorder = told["recorder"] or {"cpu_s": 0.0}
    used = sum(after.get(pid, 0.0) - before.get(pid, 0.0) for pid in broker)
    return Run(told["received"] / told["seconds"], told["driver_cpu_s"] * each, recorder["cpu_s"] * each, used * each)


def main() -> int:
    """Exit 1 when the median of the lost throughput is 10 % or more."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="reference-real")
    parser.add_argument("--protocol", choices=["stomp", "amqp"], default="stomp")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--size", default="1k")
    parser.add_argument("--window", type=int, default=0, help="default: 100000 octets in STOMP, 200 credits in AMQP")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    target = target_file.load(options.target)
    if not isinstance(target, SocketTarget):
        raise SystemExit(f"{options.target} runs in virtual time; name a target with sockets")
    window = options.window or (100_000 if options.protocol == "stomp" else 200)
    wishes = Wishes(
        protocol=options.protocol, messages=options.messages, sizes=Sizes.read(options.size), window=window, seed=1
    )
    pairs: list[tuple[Run, Run]] = []
    with tempfile.TemporaryDirectory(prefix="brokerproof-overhead-") as temporary:
        folder = Path(temporary)
        try:
            standing = Standing(target, target.start(folder / "logs"))
            broker = set(children())
            one(standing, replace(wishes, messages=options.messages // 2), folder / "warm", record=True, broker=broker)
            for number in range(options.runs):
                found = {}
                for record in (True, False) if number % 2 else (False, True):
                    found[record] = one(standing, wishes, folder / f"{number}-{record}", record=record, broker=broker)
                pairs.append((found[False], found[True]))
                if not options.json:
                    print(line(number, *pairs[-1]), flush=True)
        finally:
            target.stop()
    lost = [1 - recorded.rate / plain.rate for plain, recorded in pairs]
    more = [recorded.processor / plain.processor - 1 for plain, recorded in pairs]
    told = {
        "target": options.target,
        "protocol": options.protocol,
        "messages": options.messages,
        "lost_throughput": spread(lost),
        "more_processor": spread(more),
        "driver_us": [statistics.median(each.driver for each in side) for side in zip(*pairs, strict=True)],
        "scribe_us": statistics.median(recorded.scribe for _, recorded in pairs),
        "broker_us": [statistics.median(each.broker for each in side) for side in zip(*pairs, strict=True)],
    }
    if options.json:
        print(json.dumps(told))
    else:
        print(f"lost throughput: median {told['lost_throughput'][1]:.1%} ({lost_words(lost)})")
        print(f"more processor time of everybody: median {told['more_processor'][1]:.1%} ({lost_words(more)})")
    return int(told["lost_throughput"][1] >= 0.1)


def spread(values: list[float]) -> tuple[float, float, float]:
    """Least, median, greatest."""
    return min(values), statistics.median(values), max(values)


def lost_words(values: list[float]) -> str:
    """Least to greatest."""
    low, _, high = spread(values)
    return f"{low:.1%} to {high:.1%} in {len(values)} pairs"


def line(number: int, plain: Run, recorded: Run) -> str:
    """One pair."""
    return (
        f"pair {number + 1}: {plain.rate:,.0f}/s without, {recorded.rate:,.0f}/s with; µs a message: drivers"
        f" {plain.driver:.1f} and {recorded.driver:.1f}, scribe {recorded.scribe:.1f},"
        f" broker {plain.broker:.1f} and {recorded.broker:.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
