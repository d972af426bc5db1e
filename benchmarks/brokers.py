"""The brokers that the benchmarks measure. Each is a process on 127.0.0.1 that ends with ours."""

import functools
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from dialect import Speech

from brokerproof.harness.targets.activemq.broker import ActivemqProcess
from brokerproof.harness.targets.artemis.broker import ArtemisProcess
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.local_process import NativeProcess
from brokerproof.harness.targets.managed_broker import RunningBroker
from brokerproof.harness.targets.proton.examples import ProtonProcess
from brokerproof.harness.targets.rabbitmq import release as rabbitmq_release
from brokerproof.harness.targets.rabbitmq.broker import RabbitmqProcess

START_S = 30
"""Seconds until a broker in Python must have started."""


@dataclass(frozen=True)
class Broker:
    name: str
    version: str
    pid: int
    port: int
    speech: Speech = field(default_factory=Speech)


@dataclass(frozen=True)
class Place:
    """The place in which brokers start: ``stack`` ends them, and ``folder`` holds their files. If
    ``durable``, their queues and persistent messages survive a restart."""

    stack: ExitStack
    folder: Path
    durable: bool = False


def cpu_s(pid: int) -> float:
    """Seconds of processor time that a process has used so far, on all cores, in steps of 10 ms."""
    used = psutil.Process(pid).cpu_times()
    return used.user + used.system  # type: ignore[no-any-return]


VERSION = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
sys.argv[0] = "brokerproof.reference_broker"
runpy.run_module(sys.argv[0], run_name="__main__")
"""
"""Runs the reference broker of a checkout with the libraries of this environment."""


def started_reference(
    place: Place, *arguments: str, name: str = "reference", checkout: Path | None = None
) -> dict[str, Any]:
    """Start the reference broker of this or another checkout; return the line that it prints."""
    console = place.folder / f"{name}.log"
    program = ("-c", VERSION, str(checkout)) if checkout else ("-m", "brokerproof.reference_broker")
    data = ("--data", str(place.folder / f"{name}-data")) if place.durable else ()
    process = NativeProcess(
        [sys.executable, *program, *arguments, *data], folder=Path.cwd(), console=console, grace_s=3
    )
    place.stack.callback(process.stop)
    process.start()
    process.wait_until_ready(
        lambda: console.read_text("utf-8").endswith("}\n"),
        within_s=START_S,
        reason=lambda: (console.read_text("utf-8", errors="replace").splitlines() or [""])[-1],
    )
    ready: dict[str, Any] = json.loads(console.read_text("utf-8").splitlines()[0])
    return ready


REFERENCE = {
    "stomp": ("--stomp", "0"),
    "amqp10": ("--stomp", "0", "--amqp", "0"),
    "amqp091": ("--profile", "rabbitmq", "--amqp", "0"),
    "core": ("--core", "0"),
    "openwire": ("--profile", "activemq", "--openwire", "0"),
}
"""Options of the reference broker by protocol; they choose the broker family that speaks it."""
ANYCAST = {
    "send": "destination-type:ANYCAST\n",
    "subscribe": "subscription-type:ANYCAST\n",
    "prefetch": "consumer-window-size:{bytes}\n",
    "capability": "queue",
}


def acceptor(protocol: str) -> str:
    return "amqp" if protocol.startswith("amqp") else protocol


def reference(
    place: Place, protocol: str, name: str = "reference", checkout: Path | None = None
) -> Broker:
    ready = started_reference(place, *REFERENCE[protocol], name=name, checkout=checkout)
    login = {} if protocol in ("stomp", "amqp10") else {"login": "guest", "passcode": "guest"}
    port = ready[acceptor(protocol)]
    return Broker(name, ready["version"], ready["pid"], port, Speech(**ANYCAST, **login))


def rabbitmq(place: Place, protocol: str) -> Broker:
    """RabbitMQ with classic queues. For STOMP its only plugin is rabbitmq_stomp."""
    if protocol == "stomp":
        process = RabbitmqProcess(place.folder / "rabbitmq", plugins=["rabbitmq_stomp"])
    else:
        release = rabbitmq_release.find(rabbitmq_release.default_version())
        process = RabbitmqProcess(place.folder / "rabbitmq", release=release)
    place.stack.callback(process.stop)
    where = "{}" if protocol == "amqp091" else "/queue/{}"
    return _real(
        "RabbitMQ", protocol, process.start(), where=where, prefetch="prefetch-count:{messages}\n"
    )


OPENWIRE_ACCEPTOR = '<acceptor name="openwire">tcp://127.0.0.1:61616?protocols=OPENWIRE</acceptor>'


def artemis(place: Place, protocol: str) -> Broker:
    """Artemis as in the built-in target, plus an acceptor for OpenWire; in memory or with a
    journal. The queues are anycast."""
    changes = {"</acceptors>": f"{OPENWIRE_ACCEPTOR}</acceptors>"}
    if place.durable:
        changes["<persistence-enabled>false</persistence-enabled>"] = (
            "<persistence-enabled>true</persistence-enabled><journal-type>NIO</journal-type>"
        )
    running = _started_java(place, ArtemisProcess, "broker.xml", changes)
    return _real("Artemis", protocol, running, **ANYCAST)


def activemq(place: Place, protocol: str) -> Broker:
    """ActiveMQ Classic as in the built-in target; in memory or with KahaDB."""
    changes = {}
    if place.durable:
        changes = {
            'persistent="false"': 'persistent="true"',
            "${brokerproof.data}": str(place.folder / "kahadb"),
            '<storeUsage limit="256 mb"/>': '<storeUsage limit="8 gb"/>',
        }
    running = _started_java(place, ActivemqProcess, "activemq.xml", changes)
    where = {"stomp": "/queue/{}", "amqp10": "queue://{}"}.get(protocol, "{}")
    prefetch = "activemq.prefetchSize:{messages}\n"
    return _real("ActiveMQ", protocol, running, where=where, prefetch=prefetch)


def proton(language: str, place: Place, protocol: str) -> Broker:
    name = f"proton-{language}"
    process = ProtonProcess(name, place.folder / name)
    place.stack.callback(process.stop)
    return _real(name, protocol, process.start())


def _real(name: str, protocol: str, running: RunningBroker, **speech: str) -> Broker:
    port = running.ports[acceptor(protocol)]
    login = {"login": running.login, "passcode": running.passcode}
    return Broker(name, running.version, running.pid, port, Speech(**speech, **login))


def _started_java(
    place: Place,
    kind: type[ArtemisProcess] | type[ActivemqProcess],
    name: str,
    changes: Mapping[str, str],
) -> RunningBroker:
    """Start a broker with our file ``name``, in which each key of ``changes`` is replaced by the
    key's value."""
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


Start = Callable[[Place, str], Broker]
_proton_c, _proton_python = functools.partial(proton, "c"), functools.partial(proton, "python")
BROKERS: dict[str, dict[str, Start]] = {
    "stomp": {
        "reference": reference,
        "rabbitmq": rabbitmq,
        "artemis": artemis,
        "activemq": activemq,
    },
    "amqp10": {
        "reference": reference,
        "rabbitmq": rabbitmq,
        "artemis": artemis,
        "activemq": activemq,
        "proton-c": _proton_c,
        "proton-python": _proton_python,
    },
    "amqp091": {"reference": reference, "rabbitmq": rabbitmq},
    "core": {"reference": reference, "artemis": artemis},
    "openwire": {"reference": reference, "artemis": artemis, "activemq": activemq},
}
"""Functions that start each broker, by protocol and name. They raise
:class:`brokerproof.harness.targets.failure.SetUpFailed` if a broker cannot be had."""
