"""The brokers that ``amqp_throughput.py`` compares: each a process of its own on 127.0.0.1, ended
when we end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import comparison
from comparison import started_activemq, started_artemis, started_reference

from brokerproof.harness.targets.managed_broker import RunningBroker
from brokerproof.harness.targets.proton.examples import ProtonProcess
from brokerproof.harness.targets.rabbitmq import release as rabbitmq_release
from brokerproof.harness.targets.rabbitmq.broker import RabbitmqProcess


@dataclass(frozen=True)
class Broker(comparison.Broker):
    """A broker that speaks AMQP 1.0. ``where`` makes an address of a name; ``capability`` asks for
    a queue.

    Without ``login`` it is ANONYMOUS.
    """

    where: str = "{}"
    capability: str = ""
    login: str = ""
    passcode: str = ""


def reference(stack: ExitStack, folder: Path) -> list[Broker]:
    """The reference broker of this checkout, without a configuration file."""
    ready = started_reference(stack, folder, "--stomp", "0", "--amqp", "0")
    return [Broker("reference", ready["version"], ready["pid"], ready["amqp"], capability="queue")]


def rabbitmq(stack: ExitStack, folder: Path) -> list[Broker]:
    """RabbitMQ, a release that speaks AMQP 1.0 itself, with classic queues.

    An address of the first kind makes its queue.
    """
    release = rabbitmq_release.find(rabbitmq_release.default_version())
    process = RabbitmqProcess(folder / "rabbitmq", release=release)
    stack.callback(process.stop)
    running = process.start()
    login, passcode = running.login, running.passcode
    return [
        Broker(
            "RabbitMQ",
            running.version,
            running.pid,
            running.ports["amqp"],
            "/queue/{}",
            login=login,
            passcode=passcode,
        )
    ]


def artemis(stack: ExitStack, folder: Path) -> list[Broker]:
    """Artemis in memory, with anycast queues."""
    return [_java("Artemis", started_artemis(stack, folder), capability="queue")]


def activemq(stack: ExitStack, folder: Path) -> list[Broker]:
    """ActiveMQ Classic in memory."""
    return [_java("ActiveMQ", started_activemq(stack, folder), where="queue://{}")]


def _java(name: str, running: RunningBroker, **speech: str) -> Broker:
    return Broker(
        name,
        running.version,
        running.pid,
        running.ports["amqp"],
        login=running.login,
        passcode=running.passcode,
        **speech,
    )


def _proton(name: str, language: str) -> Callable[[ExitStack, Path], list[Broker]]:
    def start(stack: ExitStack, folder: Path) -> list[Broker]:
        process = ProtonProcess(name, folder / name)
        stack.callback(process.stop)
        running = process.start()
        return [
            Broker(f"Proton's in {language}", running.version, running.pid, running.ports["amqp"])
        ]

    return start


BROKERS: dict[str, Callable[[ExitStack, Path], list[Broker]]] = {
    "reference": reference,
    "rabbitmq": rabbitmq,
    "artemis": artemis,
    "activemq": activemq,
    "proton-c": _proton("proton-c", "C"),
    "proton-python": _proton("proton-python", "Python"),
}
"""Return the start of each broker by name. Raises
:class:`brokerproof.harness.targets.failure.SetUpFailed` when it cannot be had."""
