"""Messages a second over AMQP 0-9-1, CORE or OpenWire: the reference broker and the real brokers
that speak it, in one run on one machine.

``python benchmarks/framed_throughput.py PROTOCOL [OPTIONS]``. Everything else is as in
``stomp_throughput.py``; see README.md beside this file for what is measured.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass

import comparison
from comparison import (
    Comparison,
    Place,
    run,
    started_activemq,
    started_artemis,
    started_reference,
)
from framed_peers import DIALECTS, Job, work

from brokerproof.harness.targets.managed_broker import RunningBroker
from brokerproof.harness.targets.rabbitmq import release as rabbitmq_release
from brokerproof.harness.targets.rabbitmq.broker import RabbitmqProcess


@dataclass(frozen=True)
class Broker(comparison.Broker):
    """A broker that speaks ``protocol``."""

    protocol: str
    login: str
    passcode: str


REFERENCE = {
    "amqp091": ("--profile", "rabbitmq", "--amqp", "0"),
    "core": ("--core", "0"),
    "openwire": ("--profile", "activemq", "--openwire", "0"),
}
"""Options of the reference broker: a broker of the family whose protocol it is."""


def reference(protocol: str, place: Place) -> list[Broker]:
    """The reference broker of this checkout, without a configuration file."""
    ready = started_reference(place, *REFERENCE[protocol])
    port = ready["amqp" if protocol == "amqp091" else protocol]
    return [Broker("reference", ready["version"], ready["pid"], port, protocol, "guest", "guest")]


def rabbitmq(version: str, place: Place) -> list[Broker]:
    """RabbitMQ with classic queues."""
    release = rabbitmq_release.find(version)
    process = RabbitmqProcess(place.folder / f"rabbitmq-{version}", release=release)
    place.stack.callback(process.stop)
    return [_real("RabbitMQ", "amqp091", "amqp", process.start())]


def artemis(protocol: str, place: Place) -> list[Broker]:
    """Artemis, with anycast queues."""
    return [_real("Artemis", protocol, protocol, started_artemis(place))]


def activemq(place: Place) -> list[Broker]:
    """ActiveMQ Classic."""
    return [_real("ActiveMQ", "openwire", "openwire", started_activemq(place))]


def _real(name: str, protocol: str, acceptor: str, running: RunningBroker) -> Broker:
    port = running.ports[acceptor]
    login, passcode = running.login, running.passcode
    return Broker(name, running.version, running.pid, port, protocol, login, passcode)


REAL: dict[str, dict[str, Callable[[Place], list[Broker]]]] = {
    "amqp091": {"rabbitmq": functools.partial(rabbitmq, rabbitmq_release.default_version())},
    "core": {"artemis": functools.partial(artemis, "core")},
    "openwire": {"artemis": functools.partial(artemis, "openwire"), "activemq": activemq},
}
SCENARIOS = {
    "window": (
        "at most {window} messages unconfirmed, each acknowledged by itself, {window} outstanding"
    ),
    "backlog": "all confirmed first, then consumed as in window",
}


def job_for(broker: Broker, scenario: str, queue: str, options: argparse.Namespace) -> Job:
    """The peers' jobs."""
    return Job(
        protocol=broker.protocol,
        port=broker.port,
        login=broker.login,
        passcode=broker.passcode,
        queue=queue,
        messages=options.messages,
        size=options.size,
        durable=options.durable,
        window=options.window,
        backlog=scenario == "backlog",
        patience_s=options.patience,
    )


def main() -> int:
    """See ``comparison.run``."""
    if len(sys.argv) < 2 or sys.argv[1] not in DIALECTS:
        sys.exit(f"name a protocol: {', '.join(DIALECTS)}")
    protocol = sys.argv.pop(1)
    brokers = {"reference": functools.partial(reference, protocol), **REAL[protocol]}
    title = f"Messages a second over {protocol}: the reference broker and real ones, in one run."
    return run(Comparison(title, "reference", SCENARIOS, brokers, job_for, work))


if __name__ == "__main__":
    sys.exit(main())
