"""Starts the brokers that are killed, the reference and real ones, again and again on their own
files, and states each family's promises about a broker's death."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import ClassVar, Protocol

from brokerproof.harness.targets.activemq.broker import ActivemqProcess
from brokerproof.harness.targets.artemis.broker import ArtemisProcess
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.local_process import started_at
from brokerproof.harness.targets.managed_broker import ManagedBroker
from brokerproof.harness.targets.rabbitmq import release as rabbitmq_release
from brokerproof.harness.targets.rabbitmq.broker import RabbitmqProcess
from brokerproof.suites.soak.clients.client import ARTEMIS, RABBITMQ, SLASHES, Naming

ARTEMIS_XML = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<security-enabled>false</security-enabled><journal-type>NIO</journal-type><disk-scan-period>500</disk-scan-period>
<journal-file-size>64K</journal-file-size>
<acceptors><acceptor name="stomp">tcp://127.0.0.1:0?protocols=STOMP</acceptor>
<acceptor name="amqp">tcp://127.0.0.1:0?protocols=AMQP</acceptor>
<acceptor name="core">tcp://127.0.0.1:0?protocols=CORE</acceptor></acceptors>
<address-settings><address-setting match="#"><max-size-bytes>-1</max-size-bytes>
<max-delivery-attempts>-1</max-delivery-attempts><auto-delete-queues>false</auto-delete-queues></address-setting>
<address-setting match="paged.#"><max-size-bytes>20000</max-size-bytes><page-size-bytes>8192</page-size-bytes>
<max-read-page-bytes>-1</max-read-page-bytes></address-setting></address-settings></core></configuration>
"""  # noqa: E501
ACTIVEMQ_XML = """<broker xmlns="http://activemq.apache.org/schema/core" brokerName="b">
<destinationPolicy><policyMap><policyEntries>
<policyEntry queue="paged.>" memoryLimit="12000" producerFlowControl="false" maxPageSize="7"/>
<policyEntry queue="kept.>" memoryLimit="20000" producerFlowControl="false"><pendingQueuePolicy><fileQueueCursor/>
</pendingQueuePolicy></policyEntry></policyEntries></policyMap></destinationPolicy>
<transportConnectors><transportConnector name="stomp" uri="stomp://127.0.0.1:0"/>
<transportConnector name="amqp" uri="amqp://127.0.0.1:0"/>
<transportConnector name="openwire" uri="tcp://127.0.0.1:0"/></transportConnectors></broker>
"""  # noqa: E501
REAL_AMQP = (
    "amqp://127.0.0.1:0?transport.wireFormat.allowNonSaslConnections=true"
    "&amp;transport.transformer=jms"
)
"""Other protocols then receive only the body of an AMQP message, not its encoding."""
REAL_ACTIVEMQ_XML = (
    """<beans xmlns="http://www.springframework.org/schema/beans"
xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://www.springframework.org/schema/beans
http://www.springframework.org/schema/beans/spring-beans.xsd http://activemq.apache.org/schema/core
http://activemq.apache.org/schema/core/activemq-core.xsd">
<bean class="org.springframework.context.support.PropertySourcesPlaceholderConfigurer"/>
"""
    + ACTIVEMQ_XML.replace(
        'brokerName="b"',
        'brokerName="b" useJmx="false" schedulerSupport="false" dataDirectory="${brokerproof.data}"'
        ' schedulePeriodForDiskUsageCheck="500"',
    )
    .replace("amqp://127.0.0.1:0", REAL_AMQP)
    .replace(
        "</destinationPolicy>",
        """</destinationPolicy><persistenceAdapter><kahaDB directory="${brokerproof.data}/kahadb"
journalMaxFileLength="1mb"/></persistenceAdapter><systemUsage><systemUsage><storeUsage>
<storeUsage percentLimit="90"/></storeUsage></systemUsage></systemUsage>""",
    )
    + "</beans>"
)
RABBITMQ_CONF = "log.console = false\nraft.wal_max_size_bytes = 16000000\n"
READY_WITHIN_S = 300.0
"""A broker must start within this time."""
ENDS_WITHIN_S = 30.0
"""A broker must end within this time after SIGTERM."""


class Stuck(Exception):
    """The broker took too long. The message says for what, in one sentence."""


class Broker(Protocol):
    def start(self, dies_after_s: float | None = None) -> dict[str, int]:
        """Start a broker on the files of its killed predecessor and return its ports; none if the
        broker is killed after ``dies_after_s`` seconds. Raises :class:`Stuck`."""

    def signal(self, number: int) -> None: ...

    def ended(self, within_s: float = 0) -> bool: ...

    def close(self) -> None:
        """Start no further broker processes."""


class ReferenceBroker:
    """The reference broker, started by forking a process that has imported everything."""

    nursery: ClassVar[Sequence[str]] = ("-m", "brokerproof.suites.soak.process_forks")

    def __init__(self, folder: Path, profile: str, configuration: str) -> None:
        self.data = folder / "data"
        self._options = ["--profile", profile, "--data", str(self.data)]
        if configuration:
            (folder / "broker.xml").write_text(configuration)
            self._options += ["--config", str(folder / "broker.xml")]
        else:
            self._options = ["--profile", profile, "--any-port"]
        self._log = folder / "stderr"
        self._rest = b""
        self._process = 0
        with self._log.open("ab") as errors:
            self._nursery = subprocess.Popen(
                [sys.executable, *self.nursery],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def start(self, dies_after_s: float | None = None) -> dict[str, int]:
        assert self._nursery.stdin is not None
        os.truncate(self._log, 0)
        self._nursery.stdin.write(json.dumps(self._options).encode() + b"\n")
        self._nursery.stdin.flush()
        while (line := self._line()).startswith(b"{"):
            pass  # the output of a broker that was killed in between
        self._process = int(line)
        if dies_after_s is not None:
            select.select([], [], [], dies_after_s)
            self.signal(signal.SIGKILL)
            return {}
        return dict(json.loads(self._line()))

    def _line(self) -> bytes:
        assert self._nursery.stdout is not None
        stream = self._nursery.stdout.fileno()
        until = time.monotonic() + READY_WITHIN_S
        while b"\n" not in self._rest:
            readable = select.select([stream], [], [], max(0.0, until - time.monotonic()))[0]
            data = os.read(stream, 65536) if readable else b""
            if not data:
                raise Stuck(f"the broker did not become ready: {self.complaints()[-400:]}")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def complaints(self) -> str:
        """Return what the broker has written to standard error."""
        return self._log.read_text("utf-8", "replace").replace("\0", "")

    def signal(self, number: int) -> None:
        if not self.ended():  # the forking process waits for it only when it starts the next one
            os.kill(self._process, number)

    def ended(self, within_s: float = 0) -> bool:
        until = time.monotonic() + within_s
        while started_at(self._process) is not None:
            if time.monotonic() >= until:
                return False
            select.select([], [], [], 0.02)
        return True

    def close(self) -> None:
        self.signal(signal.SIGKILL)
        assert self._nursery.stdin is not None
        self._nursery.stdin.close()
        self._nursery.wait()
        assert self._nursery.stdout is not None
        self._nursery.stdout.close()


class RealBroker:
    """A broker of another vendor."""

    def __init__(self, broker: ManagedBroker, prepare: Callable[[], None] | None = None) -> None:
        self._broker, self._prepare = broker, prepare
        self._broker.keeps_data = True

    def start(self, dies_after_s: float | None = None) -> dict[str, int]:
        self._broker.stop()
        timer = Timer(READY_WITHIN_S if dies_after_s is None else dies_after_s, self._kill)
        timer.start()
        try:
            ports = dict(self._broker.start().ports)
            if self._prepare is not None:
                self._prepare()
                self._prepare = None
            return ports
        except SetUpFailed as problem:
            if dies_after_s is None:
                raise Stuck(str(problem)) from problem
            return {}
        finally:
            timer.cancel()
            if dies_after_s is not None:
                self._kill()

    def _kill(self) -> None:
        self._broker.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        self._broker.signal(number)

    def ended(self, within_s: float = 0) -> bool:
        return self._broker.ended(within_s)

    def close(self) -> None:
        self._kill()
        self._broker.stop()


@dataclass(frozen=True, slots=True)
class Family:
    """How a family's broker is started in a folder, its protocols, and the promises that its manual
    denies. Queues are read with the first protocol."""

    start: Callable[[Path], Broker]
    naming: Naming
    protocols: tuple[str, ...]
    places: dict[str, tuple[str, ...]]
    """Destinations of clients, each with the queues that receive its messages."""
    disclaimed: frozenset[str] = frozenset()
    """Kinds of :meth:`Ledger.say` that are counted but not reported as violations."""
    starts_s: float = 0.08
    loaded_s: float = 0.7
    """The latest time of a kill in seconds: during the start, and under load."""
    keeps: bool = True


PLACES = {
    "kept.queue": ("kept.queue",),
    "paged.queue": ("paged.queue",),
    "paged.topic": ("paged.topic#a", "paged.topic#b"),
}
QUEUES = {"kept.queue": ("kept.queue",), "paged.queue": ("paged.queue",)}
CONFIGURATIONS = {"artemis": ARTEMIS_XML, "activemq": ACTIVEMQ_XML, "rabbitmq": ""}
"""Configurations of the reference broker by profile. Without one no message survives."""


def _reference(profile: str) -> Callable[[Path], Broker]:
    return lambda folder: ReferenceBroker(folder, profile, CONFIGURATIONS[profile])


def _artemis(folder: Path) -> Broker:
    config = folder / "broker.xml"
    config.write_text(ARTEMIS_XML.replace("64K", "1M"))
    return RealBroker(ArtemisProcess(config, None, folder))


def _activemq(folder: Path) -> Broker:
    config = folder / "activemq.xml"
    config.write_text(REAL_ACTIVEMQ_XML)
    return RealBroker(ActivemqProcess(config, None, folder))


def _rabbitmq(kind: str) -> Callable[[Path], Broker]:
    def start(folder: Path) -> Broker:
        config = folder / "rabbitmq.conf"
        config.write_text(f"{RABBITMQ_CONF}default_queue_type = {kind}\n")
        release = rabbitmq_release.find(rabbitmq_release.default_version())
        broker = RabbitmqProcess(folder, config=config, release=release)
        # A quorum queue drops a message after 20 deliveries, and each look at the queue is one.
        policy = ("kept", ".*", '{"delivery-limit":-1}', "--apply-to", "quorum_queues")
        quorum = kind == "quorum"
        return RealBroker(broker, lambda: broker.control("set_policy", *policy) if quorum else None)

    return start


# ARTEMIS: "the server will not have knowledge of that and will deliver the message with redelivered
# set to false" after a crash, unless persist-delivery-count-before-delivery. ActiveMQ has the same
# by persistJMSRedelivered.
MARK = frozenset({"mark"})
# RabbitMQ, semantics.html: no atomicity even in a single queue. An acknowledgement is never
# confirmed, whatever STOMP's receipt says.
SEMANTICS = frozenset({"part", "back"})
FAMILIES = {
    "reference": Family(_reference("artemis"), ARTEMIS, ("stomp", "amqp", "core"), PLACES),
    "reference-activemq": Family(
        _reference("activemq"), SLASHES, ("stomp", "amqp", "openwire"), PLACES
    ),
    "reference-rabbitmq": Family(
        _reference("rabbitmq"), SLASHES, ("amqp091",), {"kept.queue": ("kept.queue",)}, keeps=False
    ),
    "artemis": Family(_artemis, ARTEMIS, ("stomp", "amqp", "core"), PLACES, MARK, 3.0, 3.0),
    "activemq": Family(_activemq, SLASHES, ("stomp", "amqp", "openwire"), PLACES, MARK, 3.0, 3.0),
    "rabbitmq": Family(
        _rabbitmq("classic"), RABBITMQ, ("amqp091", "stomp"), QUEUES, SEMANTICS, 4.0, 3.0
    ),
    "rabbitmq-quorum": Family(
        _rabbitmq("quorum"), RABBITMQ, ("amqp091", "stomp"), QUEUES, SEMANTICS, 4.0, 3.0
    ),
}


class Disk:
    """A separate small file system for a broker's data. Raises :class:`Stuck` if not permitted."""

    SIZE = 512 * 2**20

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ballast = folder / "ballast"
        folder.mkdir(parents=True, exist_ok=True)
        words = ["mount", "-t", "tmpfs", "-o", f"size={self.SIZE}", "brokerproof", str(folder)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except OSError as problem:
            raise Stuck(f"no disk can be filled here: {problem}") from None
        if done.returncode:
            raise Stuck(f"no disk can be filled here: {done.stderr.strip()}")

    def fill(self, left: int) -> None:
        """Leave only ``left`` bytes free."""
        with self._ballast.open("wb") as ballast:
            size = 0
            for step in (2**20, 2**12):
                with contextlib.suppress(OSError):  # the broker took the space first
                    while self._room() >= left + step:
                        os.posix_fallocate(ballast.fileno(), size, step)
                        size += step

    def _room(self) -> int:
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize

    def clear(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", str(self._folder)], check=False)
