"""Messages a second over STOMP: the reference broker, RabbitMQ's plugin and coilmq, in one run on one machine.

``python benchmarks/stomp_throughput.py`` runs every scenario on every broker several times, interleaved, so that what the
machine does meanwhile meets all alike, and prints the figures and the ratios to RabbitMQ, pair by pair. See README.md
beside this file for what is measured.
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
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from stomp_brokers import BROKERS, Broker
from stomp_peers import Job, work

from harness.targets.failure import SetUpFailed

BASE = "RabbitMQ"
SCENARIOS = {
    "stream": "SENDs without receipts as fast as they go, consumer waiting, ack:auto",
    "window": "at most {window} SENDs without their receipt, every message acknowledged, {window} outstanding",
    "backlog": "SENDs without receipts first, the consumer subscribes when all are confirmed, ack:auto",
}


@dataclass
class Series:
    """The runs of one scenario on one broker; ``rates`` in messages a second, ``cpu_us`` of the broker per message."""

    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    failure: str = ""

    def figures(self) -> dict[str, Any]:
        if not self.rates:
            return {"failure": self.failure}
        return {
            "rates": [round(each) for each in self.rates],
            "min": round(min(self.rates)),
            "median": round(statistics.median(self.rates)),
            "max": round(max(self.rates)),
            "cpu_us_per_message": round(statistics.median(self.cpu_us), 1),
        }


class Peers:
    """The two processes at the ends of the wire."""

    def __init__(self, stack: ExitStack) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: dict[str, Connection] = {}
        for role in ("produce", "consume"):
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._pipes[role] = ours
            stack.callback(process.join, 5)
            stack.callback(ours.send, None)

    def run(self, job: Job) -> float:
        """Seconds from the first SEND to the last MESSAGE. Raises :class:`SetUpFailed` when the broker failed."""
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
            raise SetUpFailed("; ".join(each for each in answers.values() if each != "ready"))
        results = {}
        if job.backlog:
            producer.send("go")
            results["produce"] = producer.recv()
            consumer.send("go" if isinstance(results["produce"], dict) else "called off")
        else:
            consumer.send("go")
            producer.send("go")
            results["produce"] = producer.recv()
        results["consume"] = consumer.recv()
        if failures := [each for each in results.values() if isinstance(each, str)]:
            raise SetUpFailed("; ".join(failures))
        return (results["consume"]["last"] - results["produce"]["first"]) / 1e9


def job_for(broker: Broker, scenario: str, queue: str, options: argparse.Namespace) -> Job:
    """What the peers are to do."""
    windowed = scenario == "window"
    in_flight = options.window if windowed else 0
    if broker.at_most:
        in_flight = broker.at_most
    return Job(
        port=broker.port,
        speech=broker.speech,
        queue=queue,
        messages=options.messages,
        size=options.size,
        in_flight=in_flight,
        acks=windowed,
        window=options.window if windowed and broker.window else 0,
        backlog=scenario == "backlog",
        patience_s=options.patience,
    )


def measure(peers: Peers, brokers: list[Broker], options: argparse.Namespace) -> dict[str, dict[str, Series]]:
    """All runs: in each repetition every scenario meets every broker, and each time another broker is first."""
    found = {scenario: {each.name: Series() for each in brokers} for scenario in options.scenarios}
    turn = itertools.count()
    for repetition in range(options.repetitions):
        for scenario in options.scenarios:
            first = repetition % len(brokers)
            for broker in brokers[first:] + brokers[:first]:
                series = found[scenario][broker.name]
                if series.failure:
                    continue
                job = job_for(broker, scenario, f"bench-{next(turn):04d}", options)
                before = broker.cpu_s()
                try:
                    took = peers.run(job)
                except SetUpFailed as problem:
                    series.failure = str(problem)
                    say(f"{scenario} {broker.name}: {problem}")
                    continue
                series.rates.append(job.messages / took)
                series.cpu_us.append((broker.cpu_s() - before) / job.messages * 1e6)
                say(
                    f"{repetition + 1}/{options.repetitions} {scenario} {broker.name}: {job.messages / took:,.0f} a second"
                )
    return found


def ratios(series: Series, base: Series) -> list[float]:
    """Rate by rate of the same repetition."""
    return [ours / theirs for ours, theirs in zip(series.rates, base.rates, strict=False)]


def say(line: str) -> None:
    """Progress, for people who wait."""
    print(line, file=sys.stderr, flush=True)


def report(
    found: dict[str, dict[str, Series]], brokers: list[Broker], missing: dict[str, str], options: argparse.Namespace
) -> str:
    """The tables as text."""
    lines = [
        f"{options.messages:,} messages of {options.size:,} octets, {options.repetitions} repetitions, interleaved; "
        f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f} at the end",
        "",
    ]
    for scenario, by_broker in found.items():
        lines.append(f"{scenario}: {SCENARIOS[scenario].format(window=options.window)}")
        lines.append(
            f"  {'messages a second':24} {'min':>9} {'median':>9} {'max':>9}   {'CPU µs each':>11}   ratio to {BASE}"
        )
        base = by_broker.get(BASE, Series())
        for broker in brokers:
            series = by_broker[broker.name]
            if series.failure:
                lines.append(f"  {broker.name:24} failed: {series.failure}")
                continue
            each = series.figures()
            line = f"  {broker.name:24} " + " ".join(f"{each[name]:9,}" for name in ("min", "median", "max"))
            line += f"   {each['cpu_us_per_message']:11.1f}"
            if broker.name != BASE and (pairs := ratios(series, base)):
                line += f"   {statistics.median(pairs):.2f} ({min(pairs):.2f} to {max(pairs):.2f})"
            lines.append(line)
        lines.append("")
    lines += [f"{each.name}: version {each.version}" + (f"; {each.note}" if each.note else "") for each in brokers]
    lines += [f"{name}: not measured: {reason}" for name, reason in missing.items()]
    return "\n".join(lines)


def as_json(
    found: dict[str, dict[str, Series]], brokers: list[Broker], missing: dict[str, str], options: argparse.Namespace
) -> str:
    """The same as one JSON object."""
    scenarios: dict[str, Any] = {}
    for scenario, by_broker in found.items():
        base = by_broker.get(BASE, Series())
        scenarios[scenario] = {
            name: series.figures() | {"ratios": [round(each, 3) for each in ratios(series, base)]}
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
            "base": BASE,
            "brokers": {each.name: each.version for each in brokers},
            "missing": missing,
            "scenarios": scenarios,
        },
        indent=2,
    )


def _options() -> argparse.Namespace:
    def count(text: str) -> int:
        if not text.isdecimal() or int(text) < 1:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 up")
        return int(text)

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=count, default=20_000, help="per run (default: %(default)s)")
    parser.add_argument("--size", type=count, default=1024, help="octets of a body (default: %(default)s)")
    parser.add_argument("--window", type=count, default=200, help="messages in flight (default: %(default)s)")
    parser.add_argument("--repetitions", type=count, default=5, help="of everything (default: %(default)s)")
    parser.add_argument("--patience", type=count, default=8, help="seconds without progress that fail a run")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS), metavar="NAME")
    parser.add_argument("--brokers", nargs="+", choices=BROKERS, default=list(BROKERS), metavar="NAME")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    return parser.parse_args()


def main() -> int:
    """0: every broker asked for was measured or is said not to be had; 3: none could be started."""
    options = _options()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stomp-throughput-")))
        brokers: list[Broker] = []
        missing: dict[str, str] = {}
        for name in options.brokers:
            try:
                brokers += BROKERS[name](stack, folder)
            except SetUpFailed as problem:
                missing[name] = str(problem)
                say(f"not measured: {problem}")
        if not brokers:
            return 3
        found = measure(Peers(stack), brokers, options)
        print((as_json if options.json else report)(found, brokers, missing, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
