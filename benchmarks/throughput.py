"""Messages a second and processor time per message of the reference broker and of other brokers of
the protocol, in one run on one machine.

``python benchmarks/throughput.py PROTOCOL`` runs every scenario on every broker several times,
interleaved, so that disturbances affect all alike, and prints the figures and the ratios of the
reference to each of the other brokers. ``--versions OLD NEW`` compares the reference brokers of two
checkouts instead; the ratios are those of NEW to OLD. See README.md beside this file for what is
measured.
"""

import functools
import itertools
import json
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
from brokers import BROKERS, Broker, Place, Start, cpu_s, reference
from dialect import Job
from peers import work

from brokerproof.harness.targets.failure import SetUpFailed

FRAMED = {
    "window": "at most {window} unconfirmed, each acknowledged by itself, {window} outstanding",
    "backlog": "all confirmed first, then consumed as in window",
}
SCENARIOS: dict[str, dict[str, str]] = {
    "stomp": {
        "stream": "SENDs without receipts as fast as they go, consumer waiting, ack:auto",
        "window": (
            "at most {window} SENDs without their receipt, each message acknowledged, {window}"
            " outstanding"
        ),
        "receipts": "as window, and every ACK asks for a receipt",
        "backlog": "SENDs without receipts first, then the consumer subscribes, ack:auto",
    },
    "amqp10": {
        "unsettled": "accepted by the broker, accepted by a consumer with {window} credits",
        "settled": "sent settled, received settled (where the broker does that), {window} credits",
        "backlog": "accepted by the broker first, then taken and accepted, {window} credits",
    },
    "amqp091": FRAMED,
    "core": FRAMED,
    "openwire": FRAMED,
}


@dataclass(frozen=True)
class Options:
    protocol: str
    scenarios: Sequence[str]
    messages: int
    size: int
    window: int
    repetitions: int
    warm_up: int
    durable: bool
    patience: float

    def job(self, broker: Broker, scenario: str, queue: str) -> Job:
        return Job(
            protocol=self.protocol,
            scenario=scenario,
            port=broker.port,
            speech=broker.speech,
            queue=queue,
            messages=self.messages,
            size=self.size,
            durable=self.durable,
            window=self.window,
            patience_s=self.patience,
        )


@dataclass
class Series:
    """The runs of one scenario on one broker: ``rates`` in messages a second, the broker's
    ``cpu_us`` per message, and ``cores``, the processor cores that the broker, the producer and the
    consumer used. A peer near 1 may itself have been the bottleneck."""

    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    cores: list[tuple[float, ...]] = field(default_factory=list)
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


Measured = dict[str, dict[str, Series]]
"""By scenario and broker name."""


class Peers:
    """The two processes at the ends of the wire (:func:`peers.work`). Each receives ``(role,
    job)``, answers "ready" or an error, waits for "go", and answers with an instant. None ends the
    process."""

    def __init__(self, stack: ExitStack) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: dict[str, Connection] = {}
        self._pids: list[int] = []
        for role in ("produce", "consume"):
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._pipes[role] = ours
            assert process.pid is not None
            self._pids.append(process.pid)
            stack.callback(process.join, 5)
            stack.callback(ours.send, None)

    def run(self, job: Job) -> tuple[float, float, float]:
        """Return the seconds from the first message sent to the last received, and the processor
        time of the producer and the consumer. Raises :class:`SetUpFailed` if the broker failed."""
        producer, consumer = self._pipes["produce"], self._pipes["consume"]
        answers = {}
        for role, pipe in (("consume", consumer), ("produce", producer)):
            pipe.send((role, job))
            answers[role] = pipe.recv()
        if set(answers.values()) != {"ready"}:
            for role, answer in answers.items():
                if answer == "ready":
                    self._pipes[role].send("called off")
                    self._pipes[role].recv()
            raise SetUpFailed("; ".join(answer for answer in answers.values() if answer != "ready"))
        before = list(map(cpu_s, self._pids))
        if job.backlog:
            producer.send("go")
            first = producer.recv()
            consumer.send("go" if isinstance(first, int) else "called off")
        else:
            consumer.send("go")
            producer.send("go")
            first = producer.recv()
        last = consumer.recv()
        if failures := [answer for answer in (first, last) if isinstance(answer, str)]:
            raise SetUpFailed("; ".join(failures))
        produced, consumed = (
            cpu_s(pid) - used for pid, used in zip(self._pids, before, strict=True)
        )
        return (last - first) / 1e9, produced, consumed


def measure(peers: Peers, brokers: Sequence[Broker], options: Options) -> Measured:
    """Run every scenario on every broker in each repetition, beginning with a different broker each
    time. The first ``options.warm_up`` repetitions are left out, as JVMs are still compiling."""
    measured = {
        scenario: {broker.name: Series() for broker in brokers} for scenario in options.scenarios
    }
    turn = itertools.count()
    for repetition in range(-options.warm_up, options.repetitions):
        for scenario in options.scenarios:
            first = repetition % len(brokers)
            for broker in [*brokers[first:], *brokers[:first]]:
                series = measured[scenario][broker.name]
                if series.failure:
                    continue
                job = options.job(broker, scenario, f"bench-{next(turn):04d}")
                before = cpu_s(broker.pid)
                try:
                    took, *driving = peers.run(job)
                except SetUpFailed as problem:
                    series.failure = str(problem)
                    say(f"{scenario} {broker.name}: {problem}")
                    continue
                used = cpu_s(broker.pid) - before
                rate = job.messages / took
                if repetition >= 0:
                    series.rates.append(rate)
                    series.cpu_us.append(used / job.messages * 1e6)
                    series.cores.append(tuple(spent / took for spent in (used, *driving)))
                number = f"{repetition + 1}/{options.repetitions}" if repetition >= 0 else "warm-up"
                say(f"{number} {scenario} {broker.name}: {rate:,.0f} a second")
    return measured


def ratios(subject: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return the ratio for each repetition in which both brokers used measurable processor time."""
    return [ours / theirs for ours, theirs in zip(subject, other, strict=False) if theirs]


def spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def report(measured: Measured, subject: str, options: Options) -> str:
    """Return the tables as text, with the ratios of the broker ``subject`` to the other brokers."""
    lines = [
        (
            f"{options.protocol}: {options.messages:,} {'persistent ' * options.durable}messages of"
            f" {options.size:,} bytes, {options.repetitions} repetitions behind {options.warm_up}"
            f" that do not count, interleaved; {os.cpu_count()} cores, Python"
            f" {platform.python_version()}, load {os.getloadavg()[0]:.1f} at the end"
        )
    ]
    for scenario, by_broker in measured.items():
        words = SCENARIOS[options.protocol][scenario].format(window=options.window)
        lines += ["", f"{scenario}: {words}"]
        lines.append(
            f"  {'messages a second':20} {'min':>9} {'median':>9} {'max':>9}   {'CPU µs each':>11} "
            f"  cores: broker, producer, consumer; ratio of {subject} to it"
        )
        ours = by_broker.get(subject, Series())
        for name, series in by_broker.items():
            if series.failure:
                lines.append(f"  {name:20} failed: {series.failure}")
                continue
            figures = series.figures()
            line = f"  {name:20} {figures['min']:9,} {figures['median']:9,} {figures['max']:9,}"
            line += f"   {figures['cpu_us_per_message']:11.1f}"
            line += f"   {' '.join(format(cores, '.2f') for cores in figures['cores'])}"
            if name != subject and (rates := ratios(ours.rates, series.rates)):
                line += f"   {spread(rates)}"
                if spent := ratios(ours.cpu_us, series.cpu_us):
                    line += f"; CPU {spread(spent)}"
            lines.append(line)
    return "\n".join(lines)


def as_json(measured: Measured, subject: str, options: Options) -> dict[str, Any]:
    scenarios: dict[str, Any] = {}
    for scenario, by_broker in measured.items():
        ours = by_broker.get(subject, Series())
        scenarios[scenario] = {
            name: series.figures()
            | {
                "ratios": ratios(ours.rates, series.rates),
                "cpu_ratios": ratios(ours.cpu_us, series.cpu_us),
            }
            for name, series in by_broker.items()
        }
    host = {"cores": os.cpu_count(), "python": platform.python_version()}
    return vars(options) | host | {"subject": subject, "scenarios": scenarios}


COUNT = click.IntRange(min=1)


@click.command(help=(__doc__ or "").partition("\n\n")[2])
@click.argument("protocol", type=click.Choice(list(BROKERS)))
@click.option("--messages", type=COUNT, default=20_000, show_default=True, help="Messages per run.")
@click.option("--size", type=COUNT, default=1024, show_default=True, help="Bytes of a body.")
@click.option("--window", type=COUNT, default=200, show_default=True, help="Messages in flight.")
@click.option(
    "--repetitions", type=COUNT, default=5, show_default=True, help="Measured repetitions."
)
@click.option("--warm-up", default=2, show_default=True, help="Unmeasured repetitions first.")
@click.option("--durable", is_flag=True, help="Persistent messages, durable queues.")
@click.option("--patience", default=8.0, help="Seconds without progress that fail a run.")
@click.option("--scenario", "scenarios", multiple=True, help="Only this one; repeatable.")
@click.option("--broker", "names", multiple=True, help="Only this one; repeatable.")
@click.option("--versions", nargs=2, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "to_json", is_flag=True, help="Print one JSON object instead of tables.")
def main(
    protocol: str,
    names: Sequence[str],
    versions: tuple[Path, Path] | None,
    to_json: bool,
    **asked: Any,
) -> None:
    """Exit 3 if no broker could be started."""
    asked["scenarios"] = asked["scenarios"] or tuple(SCENARIOS[protocol])
    if unknown := set(asked["scenarios"]) - set(SCENARIOS[protocol]):
        raise click.UsageError(f"no scenario {unknown.pop()!r}: {', '.join(SCENARIOS[protocol])}")
    options = Options(protocol, **asked)
    starts: Mapping[str, Start] = BROKERS[protocol]
    if versions:
        starts = {
            name: functools.partial(reference, name=name, checkout=path.resolve())
            for name, path in zip(("old", "new"), versions, strict=True)
        }
    if unknown := set(names) - set(starts):
        raise click.UsageError(f"no broker {unknown.pop()!r}: {', '.join(starts)}")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="brokerproof-throughput-"))
        place = Place(stack, Path(folder), options.durable)
        brokers: list[Broker] = []
        for name in names or starts:
            try:
                brokers.append(starts[name](place, protocol))
                say(f"{brokers[-1].name}: version {brokers[-1].version}")
            except SetUpFailed as problem:
                say(f"not measured: {name}: {problem}")
        if not brokers:
            sys.exit(3)
        measured = measure(Peers(stack), brokers, options)
    subject = "new" if versions else "reference"
    if to_json:
        versions_of = {"brokers": {broker.name: broker.version for broker in brokers}}
        print(json.dumps(as_json(measured, subject, options) | versions_of, indent=2))
    else:
        print(report(measured, subject, options))


if __name__ == "__main__":
    main()
