"""Common parts of the comparisons of brokers: runs interleaved, rates, processor time per message,
ratios run by run.

A comparison has scenarios, brokers, and two peers: processes at the ends of the wire that get a job
each. What a job is, and what peers do with it, is the comparison's own matter.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from brokerproof.harness.targets.activemq.broker import ActivemqProcess
from brokerproof.harness.targets.artemis.broker import ArtemisProcess
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.local_process import NativeProcess
from brokerproof.harness.targets.managed_broker import RunningBroker


class Job(Protocol):
    """Fields of every job. With ``backlog`` the consumer begins when the producer is done."""

    messages: int
    backlog: bool


@dataclass(frozen=True)
class Broker:
    """A broker that accepts connections on 127.0.0.1."""

    name: str
    version: str
    pid: int
    port: int
    note: str = field(default="", kw_only=True)


def cpu_s(pid: int) -> float:
    """Processor time that a process has used so far, on all cores. Seconds, in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


B = TypeVar("B", bound=Broker)


@dataclass(frozen=True)
class Place:
    """Where brokers are started: ``stack`` ends them, ``folder`` is theirs. With ``durable`` their
    queues survive a restart, and so do persistent messages."""

    stack: ExitStack
    folder: Path
    durable: bool = False


START_S = 30
"""Seconds until a broker in Python must have started."""


def started_python(place: Place, name: str, *arguments: str) -> tuple[NativeProcess, Path]:
    """A process of this interpreter and its console."""
    console = place.folder / f"{name}.log"
    process = NativeProcess(
        [sys.executable, *arguments], folder=Path.cwd(), console=console, grace_s=3
    )
    place.stack.callback(process.stop)
    process.start()
    return process, console


def last_line(console: Path) -> str:
    """The last that it printed."""
    lines = console.read_text("utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def started_reference(place: Place, *arguments: str) -> dict[str, Any]:
    """The ready line of the reference broker of this checkout, without a configuration file."""
    data = ("--data", str(place.folder / "data")) if place.durable else ()
    process, console = started_python(
        place, "reference", "-m", "brokerproof.reference_broker", *arguments, *data
    )
    process.wait_until_ready(
        lambda: console.read_text("utf-8").endswith("}\n"),
        within_s=START_S,
        reason=lambda: last_line(console),
    )
    ready: dict[str, Any] = json.loads(console.read_text("utf-8").splitlines()[0])
    return ready


OPENWIRE_ACCEPTOR = '<acceptor name="openwire">tcp://127.0.0.1:61616?protocols=OPENWIRE</acceptor>'


def started_artemis(place: Place) -> RunningBroker:
    """Artemis as the target of that name has it, with an acceptor for OpenWire beside; in memory,
    or with a journal."""
    changes = {"</acceptors>": f"{OPENWIRE_ACCEPTOR}</acceptors>"}
    if place.durable:
        changes["<persistence-enabled>false</persistence-enabled>"] = (
            "<persistence-enabled>true</persistence-enabled><journal-type>NIO</journal-type>"
        )
    return _started_java(place, ArtemisProcess, "broker.xml", changes)


def started_activemq(place: Place) -> RunningBroker:
    """ActiveMQ Classic as the target of that name has it; in memory, or with KahaDB."""
    changes = {}
    if place.durable:
        changes = {
            'persistent="false"': 'persistent="true"',
            "${brokerproof.data}": str(place.folder / "kahadb"),
            '<storeUsage limit="256 mb"/>': '<storeUsage limit="8 gb"/>',
        }
    return _started_java(place, ActivemqProcess, "activemq.xml", changes)


def _started_java(
    place: Place,
    kind: type[ArtemisProcess] | type[ActivemqProcess],
    name: str,
    changes: Mapping[str, str],
) -> RunningBroker:
    """Start a broker with our file ``name`` in which some texts, all of them there, are others."""
    text = (kind.releases.our_files / name).read_text("utf-8")
    for before, after in changes.items():
        if before not in text:
            raise SetUpFailed(f"{name} has no {before} any more")
        text = text.replace(before, after)
    config = place.folder / name
    config.write_text(text, "utf-8")
    process = kind(config, None, place.folder / kind.name)
    place.stack.callback(process.stop)
    return process.start()


@dataclass(frozen=True)
class Comparison(Generic[B]):
    """``title`` is one line. ``subject`` is the broker whose ratios to the others are printed.
    ``scenarios`` say in words what they are, with ``{window}`` for its size. ``brokers`` are
    started by name and raise :class:`SetUpFailed` where one cannot be had. ``job`` is given
    broker, scenario, a fresh queue and the options. ``work`` is a peer's life (see ``Peers``)."""

    title: str
    subject: str
    scenarios: Mapping[str, str]
    brokers: Mapping[str, Callable[[Place], list[B]]]
    job: Callable[[B, str, str, argparse.Namespace], Job]
    work: Callable[[Connection], None]


@dataclass
class Series:
    """The runs of one scenario on one broker; ``rates`` in messages a second, ``cpu_us`` of the
    broker per message. ``cores`` are how many of the processor's the broker, the producer and the
    consumer used: a driver close to 1 may be what was measured."""

    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    cores: list[tuple[float, float, float]] = field(default_factory=list)
    failure: str = ""

    def figures(self) -> dict[str, Any]:
        if not self.rates:
            return {"failure": self.failure}
        return {
            "rates": [round(rate) for rate in self.rates],
            "min": round(min(self.rates)),
            "median": round(statistics.median(self.rates)),
            "max": round(max(self.rates)),
            "cpu_us_per_message": round(statistics.median(self.cpu_us), 1),
            "cores": [
                round(statistics.median(cores), 2) for cores in zip(*self.cores, strict=True)
            ],
        }


class Peers:
    """The two processes at the ends of the wire.

    ``work(pipe)`` gets ``(role, job)``, answers "ready" (or why not), waits for "go", and answers
    with its instants: ``first`` of the producer, ``last`` of the consumer, nanoseconds of the
    host's monotonic clock. None ends it.
    """

    def __init__(self, stack: ExitStack, work: Callable[[Connection], None]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: dict[str, Connection] = {}
        self._pids: dict[str, int] = {}
        for role in ("produce", "consume"):
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._pipes[role] = ours
            assert process.pid is not None
            self._pids[role] = process.pid
            stack.callback(process.join, 5)
            stack.callback(ours.send, None)

    def run(self, job: Job) -> tuple[float, float, float]:
        """Seconds from the first message sent to the last that arrived, and processor time of
        producer and consumer meanwhile. Raises :class:`SetUpFailed` when the broker failed."""
        producer, consumer = self._pipes["produce"], self._pipes["consume"]
        both = (("consume", consumer), ("produce", producer))
        answers = {}
        for role, pipe in both:
            pipe.send((role, job))
            answers[role] = pipe.recv()
        if set(answers.values()) != {"ready"}:
            for role, pipe in both:
                if answers[role] == "ready":
                    pipe.send("called off")
                    pipe.recv()
            raise SetUpFailed("; ".join(answer for answer in answers.values() if answer != "ready"))
        results = {}
        before = [cpu_s(self._pids[role]) for role in ("produce", "consume")]
        if job.backlog:
            producer.send("go")
            results["produce"] = producer.recv()
            consumer.send("go" if isinstance(results["produce"], dict) else "called off")
        else:
            consumer.send("go")
            producer.send("go")
            results["produce"] = producer.recv()
        results["consume"] = consumer.recv()
        if failures := [result for result in results.values() if isinstance(result, str)]:
            raise SetUpFailed("; ".join(failures))
        produced, consumed = (
            cpu_s(self._pids[role]) - used
            for role, used in zip(("produce", "consume"), before, strict=True)
        )
        return (results["consume"]["last"] - results["produce"]["first"]) / 1e9, produced, consumed


def measure(
    peers: Peers, comparison: Comparison[B], brokers: Sequence[B], options: argparse.Namespace
) -> dict[str, dict[str, Series]]:
    """All runs: in each repetition every scenario meets every broker, and each time another broker
    is first. The first ``options.warm_up`` repetitions do not count: a JVM compiles meanwhile.
    """
    all_series = {
        scenario: {broker.name: Series() for broker in brokers} for scenario in options.scenarios
    }
    turn = itertools.count()
    for repetition in range(-options.warm_up, options.repetitions):
        for scenario in options.scenarios:
            first = repetition % len(brokers)
            for broker in [*brokers[first:], *brokers[:first]]:
                series = all_series[scenario][broker.name]
                if series.failure:
                    continue
                job = comparison.job(broker, scenario, f"bench-{next(turn):04d}", options)
                before = cpu_s(broker.pid)
                try:
                    took, *driving = peers.run(job)
                except SetUpFailed as problem:
                    series.failure = str(problem)
                    say(f"{scenario} {broker.name}: {problem}")
                    continue
                used = cpu_s(broker.pid) - before
                if repetition >= 0:
                    series.rates.append(job.messages / took)
                    series.cpu_us.append(used / job.messages * 1e6)
                    series.cores.append((used / took, driving[0] / took, driving[1] / took))
                turn_of = (
                    f"{repetition + 1}/{options.repetitions}" if repetition >= 0 else "warm-up"
                )
                say(f"{turn_of} {scenario} {broker.name}: {job.messages / took:,.0f} a second")
    return all_series


def ratios(subject: Sequence[float], other: Sequence[float]) -> list[float]:
    """Figure by figure of the same repetition; where the other used no processor time that shows,
    none."""
    return [ours / theirs for ours, theirs in zip(subject, other, strict=False) if theirs]


def say(line: str) -> None:
    """Progress, for people who wait."""
    print(line, file=sys.stderr, flush=True)


def report(
    all_series: dict[str, dict[str, Series]],
    comparison: Comparison[B],
    brokers: Sequence[B],
    missing: dict[str, str],
    options: argparse.Namespace,
) -> str:
    """The tables as text."""
    lines = [
        (
            f"{options.messages:,} {'persistent ' * options.durable}messages of {options.size:,}"
            f" bytes, {options.repetitions} repetitions behind {options.warm_up} that do not count,"
            f" interleaved; {os.cpu_count()} cores, Python"
            f" {platform.python_version()}, load {os.getloadavg()[0]:.1f} at the end"
        ),
        "",
    ]
    for scenario, by_broker in all_series.items():
        lines.append(f"{scenario}: {comparison.scenarios[scenario].format(window=options.window)}")
        lines.append(
            f"  {'messages a second':24} {'min':>9} {'median':>9} {'max':>9}   {'CPU µs each':>11} "
            f"  cores: broker, producer, consumer; ratio of {comparison.subject} to it"
        )
        subject = by_broker.get(comparison.subject, Series())
        for broker in brokers:
            series = by_broker[broker.name]
            if series.failure:
                lines.append(f"  {broker.name:24} failed: {series.failure}")
                continue
            figures = series.figures()
            line = f"  {broker.name:24} " + " ".join(
                f"{figures[name]:9,}" for name in ("min", "median", "max")
            )
            line += f"   {figures['cpu_us_per_message']:11.1f}"
            line += f"   {' '.join(format(cores, '.2f') for cores in figures['cores'])}"
            if broker.name != comparison.subject and (pairs := ratios(subject.rates, series.rates)):
                line += f"   {statistics.median(pairs):.2f} ({min(pairs):.2f} to {max(pairs):.2f})"
                if work := ratios(subject.cpu_us, series.cpu_us):
                    line += (
                        f"; CPU {statistics.median(work):.2f} ({min(work):.2f} to {max(work):.2f})"
                    )
            lines.append(line)
        lines.append("")
    lines += [
        f"{broker.name}: version {broker.version}" + (f"; {broker.note}" if broker.note else "")
        for broker in brokers
    ]
    lines += [f"{name}: not measured: {reason}" for name, reason in missing.items()]
    return "\n".join(lines)


def as_json(
    all_series: dict[str, dict[str, Series]],
    comparison: Comparison[B],
    brokers: Sequence[B],
    missing: dict[str, str],
    options: argparse.Namespace,
) -> str:
    """Return the comparison as one JSON object."""
    scenarios: dict[str, Any] = {}
    for scenario, by_broker in all_series.items():
        subject = by_broker.get(comparison.subject, Series())
        scenarios[scenario] = {
            name: series.figures()
            | {
                "ratios": [round(ratio, 3) for ratio in ratios(subject.rates, series.rates)],
                "cpu_ratios": [round(ratio, 3) for ratio in ratios(subject.cpu_us, series.cpu_us)],
            }
            for name, series in by_broker.items()
        }
    return json.dumps(
        {
            "messages": options.messages,
            "size": options.size,
            "window": options.window,
            "repetitions": options.repetitions,
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "warm_up": options.warm_up,
            "durable": options.durable,
            "subject": comparison.subject,
            "brokers": {broker.name: broker.version for broker in brokers},
            "missing": missing,
            "scenarios": scenarios,
        },
        indent=2,
    )


def _options(comparison: Comparison[B]) -> argparse.Namespace:
    def count(text: str) -> int:
        if not text.isdecimal() or int(text) < 1:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 up")
        return int(text)

    parser = argparse.ArgumentParser(description=comparison.title)
    parser.add_argument(
        "--messages", type=count, default=20_000, help="per run (default: %(default)s)"
    )
    parser.add_argument(
        "--size", type=count, default=1024, help="bytes of a body (default: %(default)s)"
    )
    parser.add_argument(
        "--window", type=count, default=200, help="messages in flight (default: %(default)s)"
    )
    parser.add_argument(
        "--repetitions", type=count, default=5, help="of everything (default: %(default)s)"
    )
    parser.add_argument(
        "--warm-up",
        type=int,
        default=2,
        help="repetitions before those that count (default: %(default)s)",
    )
    parser.add_argument(
        "--durable", action="store_true", help="persistent messages, queues that survive"
    )
    parser.add_argument(
        "--patience", type=count, default=8, help="seconds without progress that fail a run"
    )
    parser.add_argument(
        "--scenarios",
        nargs="+",
        choices=comparison.scenarios,
        default=list(comparison.scenarios),
        metavar="NAME",
    )
    parser.add_argument(
        "--brokers",
        nargs="+",
        choices=comparison.brokers,
        default=list(comparison.brokers),
        metavar="NAME",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of tables"
    )
    return parser.parse_args()


def run(comparison: Comparison[B]) -> int:
    """0: every broker asked for was measured or is said not to be had; 3: none could be started."""
    options = _options(comparison)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="brokerproof-throughput-"))
        place = Place(stack, Path(folder), options.durable)
        brokers: list[B] = []
        missing: dict[str, str] = {}
        for name in options.brokers:
            try:
                brokers += comparison.brokers[name](place)
            except SetUpFailed as problem:
                missing[name] = str(problem)
                say(f"not measured: {problem}")
        if not brokers:
            return 3
        series = measure(Peers(stack, comparison.work), comparison, brokers, options)
        print((as_json if options.json else report)(series, comparison, brokers, missing, options))
    return 0
