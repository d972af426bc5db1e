"""The brokers that ``stomp_throughput.py`` compares: each a process of its own on 127.0.0.1, ended
when we end."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import comparison
from comparison import (
    START_S,
    Place,
    last_line,
    started_activemq,
    started_artemis,
    started_python,
    started_reference,
)
from stomp_peers import Speech

from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.local_process import free_ports, listens
from brokerproof.harness.targets.rabbitmq.broker import RabbitmqProcess


@dataclass(frozen=True)
class Broker(comparison.Broker):
    """A broker that speaks STOMP. ``at_most`` bounds the SENDs without receipt that it survives; 0:
    no bound."""

    speech: Speech
    window: bool = True
    at_most: int = 0


def reference(place: Place) -> list[Broker]:
    """The reference broker of this checkout, without a configuration file."""
    ready = started_reference(place, "--stomp", "0")
    speech = Speech(
        where="{}",
        send="destination-type:ANYCAST\n",
        subscribe="subscription-type:ANYCAST\n",
        window="consumer-window-size:{bytes}\n",
    )
    return [Broker("reference", ready["version"], ready["pid"], ready["stomp"], speech)]


def rabbitmq(place: Place) -> list[Broker]:
    """RabbitMQ with nothing but its STOMP plugin."""
    process = RabbitmqProcess(place.folder / "rabbitmq", plugins=["rabbitmq_stomp"])
    place.stack.callback(process.stop)
    running = process.start()
    speech = Speech(
        window="prefetch-count:{messages}\n", login=running.login, passcode=running.passcode
    )
    return [Broker("RabbitMQ", running.version, running.pid, running.ports["stomp"], speech)]


def artemis(place: Place) -> list[Broker]:
    """Artemis, with an anycast queue as the reference has it."""
    running = started_artemis(place)
    speech = Speech(
        where="{}",
        send="destination-type:ANYCAST\n",
        subscribe="subscription-type:ANYCAST\n",
        window="consumer-window-size:{bytes}\n",
        login=running.login,
        passcode=running.passcode,
    )
    return [Broker("Artemis", running.version, running.pid, running.ports["stomp"], speech)]


def activemq(place: Place) -> list[Broker]:
    """ActiveMQ Classic."""
    running = started_activemq(place)
    speech = Speech(
        window="activemq.prefetchSize:{messages}\n",
        login=running.login,
        passcode=running.passcode,
    )
    return [Broker("ActiveMQ", running.version, running.pid, running.ports["stomp"], speech)]


def coilmq(place: Place) -> list[Broker]:
    """coilmq with its store in memory, twice: as the others, and with one message at a time.

    STOMP 1.1, because its 1.2 wants the host to be its own name. ``client``, because it takes
    ``client-individual`` for ``auto``; it then waits for the ACK of one message before it sends the
    next. It has no window.
    """
    if place.durable:
        raise SetUpFailed("coilmq: keeps nothing here")
    if importlib.util.find_spec("coilmq") is None:
        raise SetUpFailed(
            "coilmq: is not installed in this environment; install it with: pip install coilmq"
        )
    port = free_ports(1)[0]
    arguments = ["-m", "coilmq.start", "--host", "127.0.0.1", "--port", str(port)]
    process, console = started_python(place, "coilmq", *arguments)
    process.wait_until_ready(
        lambda: listens("127.0.0.1", port), within_s=START_S, reason=lambda: last_line(console)
    )
    assert process.pid is not None
    version, speech = importlib.metadata.version("coilmq"), Speech(version="1.1", mode="client")
    note = "one message at a time, each with a receipt"
    return [
        Broker("coilmq", version, process.pid, port, speech, window=False),
        Broker(
            "coilmq, one by one",
            version,
            process.pid,
            port,
            speech,
            window=False,
            at_most=1,
            note=note,
        ),
    ]


BROKERS: dict[str, Callable[[Place], list[Broker]]] = {
    "reference": reference,
    "rabbitmq": rabbitmq,
    "artemis": artemis,
    "activemq": activemq,
    "coilmq": coilmq,
}
"""Return the start of each broker by name. Raises
:class:`brokerproof.harness.targets.failure.SetUpFailed` when it cannot be had."""
