"""The brokers that ``amqp_throughput.py`` compares: each a process of its own on 127.0.0.1, ended
when we end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import comparison
from comparison import Place, started_activemq, started_artemis, started_reference

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


def reference(place: Place) -> list[Broker]:
    """The reference broker of this checkout, without a configuration file."""
    ready = started_reference(place, "--stomp", "0", "--amqp", "0")
    return [Broker("reference", ready["version"], ready["pid"], ready["amqp"], capability="queue")]


def rabbitmq(place: Place) -> list[Broker]:
    """RabbitMQ, a release that speaks AMQP 1.0 itself, with classic queues.

    An address of the first kind makes its queue.
    """
    release = rabbitmq_release.find(rabbitmq_release.default_version())
    process = RabbitmqProcess(place.folder / "rabbitmq", release=release)
    place.stack.callback(process.stop)
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


def artemis(place: Place) -> list[Broker]:
    """Artemis, with anycast queues."""
    return [_java("Artemis", started_artemis(place), capability="queue")]


def activemq(place: Place) -> list[Broker]:
    """ActiveMQ Classic."""
    return [_java("ActiveMQ", started_activemq(place), where="queue://{}")]


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


def _proton(name: str, language: str) -> Callable[[Place], list[Broker]]:
    def start(place: Place) -> list[Broker]:
        process = ProtonProcess(name, place.folder / name)
        place.stack.callback(process.stop)
        running = process.start()
        return [
            Broker(f"Proton's in {language}", running.version, running.pid, running.ports["amqp"])
        ]

    return start


BROKERS: dict[str, Callable[[Place], list[Broker]]] = {
    "reference": reference,
    "rabbitmq": rabbitmq,
    "artemis": artemis,
    "activemq": activemq,
    "proton-c": _proton("proton-c", "C"),
    "proton-python": _proton("proton-python", "Python"),
}
"""Return the start of each broker by name. Raises
:class:`brokerproof.harness.targets.failure.SetUpFailed` when it cannot be had."""
