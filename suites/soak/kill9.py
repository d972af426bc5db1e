"""Kills the reference broker with SIGKILL under load, again and again, and checks whether it kept
what it promised.

``python -m brokerproof.suites.soak.kill9 --runs 500 --seed 1 [--profile activemq]``. Each run
starts the real process on the files of the run before, looks at all that is in its queues, loads it
with clients of every protocol that send and acknowledge on the same connection (confirmations,
transactions, large bodies that stream back, two kinds of queue and durable subscriptions), and
kills it at an instant that the dice choose; sometimes it is killed before, while it recovers. Exit
1 when anything confirmed was lost, out of order, altered, there twice, or there again without the
mark of a redelivery, when anything was delivered and is lost, or when a transaction is there in
part. The profile rabbitmq keeps everything in memory: there nothing may be left.
"""

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from brokerproof.suites.soak.clients import CLIENTS
from brokerproof.suites.soak.clients.client import (
    ARTEMIS,
    SLASHES,
    Client,
    Confirmed,
    Delivered,
    Event,
    Naming,
    Refused,
)
from brokerproof.suites.soak.clients.stomp import StompClient
from brokerproof.suites.soak.ledger import Counts, Key, Ledger

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<security-enabled>false</security-enabled><journal-file-size>64K</journal-file-size>
<acceptors><acceptor name="stomp">tcp://127.0.0.1:0?protocols=STOMP</acceptor>
<acceptor name="amqp">tcp://127.0.0.1:0?protocols=AMQP</acceptor>
<acceptor name="core">tcp://127.0.0.1:0?protocols=CORE</acceptor></acceptors>
<address-settings><address-setting match="#"><max-size-bytes>-1</max-size-bytes>
<max-delivery-attempts>-1</max-delivery-attempts><auto-delete-queues>false</auto-delete-queues></address-setting>
<address-setting match="paged.#"><max-size-bytes>20000</max-size-bytes><page-size-bytes>8192</page-size-bytes>
<max-read-page-bytes>-1</max-read-page-bytes></address-setting></address-settings></core></configuration>
"""  # noqa: E501
ACTIVEMQ = """<broker xmlns="http://activemq.apache.org/schema/core" brokerName="b">
<destinationPolicy><policyMap><policyEntries>
<policyEntry queue="paged.>" memoryLimit="12000" producerFlowControl="false" maxPageSize="7"/>
<policyEntry queue="kept.>" memoryLimit="20000" producerFlowControl="false"><pendingQueuePolicy><fileQueueCursor/>
</pendingQueuePolicy></policyEntry></policyEntries></policyMap></destinationPolicy>
<transportConnectors><transportConnector name="stomp" uri="stomp://127.0.0.1:0"/>
<transportConnector name="amqp" uri="amqp://127.0.0.1:0"/>
<transportConnector name="openwire" uri="tcp://127.0.0.1:0"/></transportConnectors></broker>
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Family:
    """How a broker is configured (None: not at all, and nothing survives) and what it speaks."""

    profile: str
    configuration: str | None
    naming: Naming
    protocols: tuple[str, ...]
    places: dict[str, tuple[str, ...]]
    """Where clients send, and the queues that a message arrives in."""


PLACES = {
    "kept.queue": ("kept.queue",),
    "paged.queue": ("paged.queue",),
    "paged.topic": ("paged.topic#a", "paged.topic#b"),
}
FAMILIES = {
    "artemis": Family("artemis", CONFIGURATION, ARTEMIS, ("stomp", "amqp", "core"), PLACES),
    "activemq": Family("activemq", ACTIVEMQ, SLASHES, ("stomp", "amqp", "openwire"), PLACES),
    "rabbitmq": Family("rabbitmq", None, SLASHES, ("amqp091",), {"kept.queue": ("kept.queue",)}),
}
MOST = 400
"""Messages in a queue from which on clients send nothing more to it."""
LENGTHS = (20, 20, 400, 400, 400, 3000, 3000, 150_000)
"""Of bodies, in bytes. The last is above what both families stream from files of their own."""
WITHIN_S = 20.0
"""How long the broker may take for anything."""


class Stuck(Exception):
    """The broker did not do in time what was waited for; one sentence."""


class Peer:
    """A client and its socket."""

    def __init__(self, port: int, client: Client) -> None:
        self.client = client
        self.socket = socket.create_connection(("127.0.0.1", port), WITHIN_S)
        self.events: deque[Event] = deque()
        self.flush()

    def flush(self) -> None:
        """Send what the client wants to send."""
        data = self.client.take()
        if data:
            self.socket.sendall(data)

    def read(self) -> None:
        """Take what is there, or wait until something is. Raises ``ConnectionError`` at EOF, and
        :class:`Refused`."""
        data = self.socket.recv(262144)
        if not data:
            raise ConnectionError("the broker closed the connection")
        self.events += self.client.on_bytes(data)
        self.flush()

    def wait(self) -> Event:
        """Return the next event. Raises :class:`Stuck`."""
        while not self.events:
            try:
                self.read()
            except TimeoutError:
                raise Stuck(f"{self.client.name}: nothing arrived in {WITHIN_S} s") from None
        return self.events.popleft()

    def close(self) -> None:
        self.socket.close()


class Chain:
    """One folder of data, and the runs on it. ``dice`` decides everything that may be decided."""

    def __init__(self, folder: Path, seed: int, profile: str) -> None:
        self.folder = folder
        self.family = FAMILIES[profile]
        self.dice = random.Random(seed)
        self.ledger = Ledger()
        self.kills_in_recovery = 0
        self.pages_seen = 0
        self._producers = self._clients = 0
        self.confirmed: Counter[str] = Counter()
        """Confirmations by what was confirmed: sends and acknowledgements of each protocol."""
        if self.family.configuration is not None:
            (folder / "broker.xml").write_text(self.family.configuration)
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "brokerproof.suites.soak.process_forks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._asked, self._answers = self._nursery.stdin, self._nursery.stdout

    def start(self) -> int:
        """A new broker process, whose id it returns; the one before has been killed."""
        options = ["--profile", self.family.profile]
        if self.family.configuration is None:
            options.append("--any-port")
        else:
            options += ["--config", str(self.folder / "broker.xml")]
            options += ["--data", str(self.folder / "data")]
        self._asked.write(json.dumps(options) + "\n")
        self._asked.flush()
        while (line := self._told()).startswith("{"):
            pass  # what a broker that was killed at once has still said
        return int(line)

    def _told(self) -> str:
        line = self._answers.readline()
        if not line:
            raise Stuck("the process that starts brokers has ended")
        return line

    def run(self) -> None:
        """One start, one look, one load, one kill."""
        self.ledger.run += 1
        process = self.start()
        if self.dice.random() < 0.1:
            select.select([], [], [], self.dice.uniform(0.0, 0.08))
            os.kill(process, signal.SIGKILL)
            self.kills_in_recovery += 1
            process = self.start()
        try:
            ports: dict[str, int] = json.loads(self._told())
            for queue in (queue for queues in self.family.places.values() for queue in queues):
                self.look(ports, queue)
            self.load(ports)
        except (OSError, Refused) as problem:
            raise Stuck(f"run {self.ledger.run}: {problem}") from problem
        finally:
            os.kill(process, signal.SIGKILL)
        if self.family.configuration is None:
            self.ledger.queues.clear()  # nothing may be left
        self.pages_seen += len(list((self.folder / "data").rglob("*.page")))

    def look(self, ports: dict[str, int], queue: str) -> None:
        """Everything that is in ``queue``, without taking it away: it arrives before a message that
        is sent now."""
        kind = "stomp" if self.family.configuration is not None else self.family.protocols[0]
        peer = Peer(ports[CLIENTS[kind].protocol], self._client(kind, queue))
        peer.client.consume(queue, -1)
        marker = f"end of {queue} in run {self.ledger.run}".encode()
        peer.client.produce(queue.partition("#")[0], [marker], "end", False)
        peer.flush()
        there: list[tuple[Key, bool]] = []
        markers = 0
        while True:
            event = peer.wait()
            if isinstance(event, Confirmed):
                continue
            if not event.body.startswith(b"end of"):
                there.append((self.key(event), event.marked is True))
                continue
            peer.client.acknowledge([event.handle], f"end {markers}", False)
            markers += 1
            if event.body == marker:
                break
        if isinstance(peer.client, StompClient):
            peer.client.leave("bye")
            peer.flush()
            while peer.wait() != Confirmed("bye"):
                pass
        else:
            peer.flush()
        peer.close()
        self.ledger.found(queue, there)

    def key(self, event: Delivered) -> Key:
        """The message that ``event`` delivers; a body that was altered is wrong."""
        key = Key.of(event.body)
        if event.body != key.body(len(event.body)):
            self.ledger.wrong.append(f"run {self.ledger.run}: the body of {key} was altered")
        return key

    def _client(self, kind: str, queue: str) -> Client:
        """A client; one that consumes a durable subscription has that subscription's client-id."""
        self._clients += 1
        name = queue.partition("#")[2]
        client = CLIENTS[kind]
        return client(f"client-{name}" if name else f"c{self._clients}", self.family.naming)

    def end(self) -> None:
        """No more runs."""
        self._asked.close()
        self._nursery.wait()
        self._answers.close()

    # --- load -------------------------------------------------------------------------------------

    def load(self, ports: dict[str, int]) -> None:
        """Clients until the instant of the kill, which is at the end of this."""
        dice, workers = self.dice, []
        for address, queues in self.family.places.items():
            count = max(len(self.ledger.queues.get(queue, ())) for queue in queues)
            for number in range(dice.randint(2, 3)):
                kind = "stomp" if len(queues) > 1 else dice.choice(self.family.protocols)
                shared = len(queues) == 1  # a durable subscription has one consumer
                consumes = (shared or number < len(queues)) and dice.random() < 0.7
                queue = queues[0 if shared else number] if consumes else ""
                self._producers += 1
                client = self._client(kind, queue)
                peer = Peer(ports[client.protocol], client)
                sends = count < MOST and dice.random() < 0.8
                workers.append(Worker(peer, address if sends else "", queues, queue, self))
        until = time.monotonic() + dice.uniform(0.01, 0.7)
        by_socket = {worker.peer.socket: worker for worker in workers}
        for worker in workers:
            worker.go_on()
        while (left := until - time.monotonic()) > 0:
            for ready in select.select(list(by_socket), [], [], left)[0]:
                by_socket[ready].peer.read()
                by_socket[ready].go_on()
        for worker in workers:
            worker.peer.close()

    @property
    def producer(self) -> int:
        """The number of the last producer."""
        return self._producers


class Worker:
    """Sends to ``address`` and consumes ``queue``, if there is either, on one connection."""

    def __init__(
        self, peer: Peer, address: str, queues: tuple[str, ...], queue: str, chain: Chain
    ) -> None:
        self.peer = peer
        self._address, self._queues, self._queue, self._chain = address, queues, queue, chain
        self._number = chain.producer
        self._dice = random.Random(chain.dice.random())
        self._window = self._dice.choice((1, 4, 32))
        self._next = self._groups = self._asked = 0
        self._sent: dict[str, list[Key]] = {}
        self._acknowledged: dict[str, list[Key]] = {}
        self._units: set[str] = set()
        self._last: dict[int, int] = {}
        self._kind = type(peer.client).__name__.removesuffix("Client")
        if queue:
            peer.client.consume(queue, self._dice.choice((20_000, 400_000)))

    def go_on(self) -> None:
        """Note what arrived, acknowledge most of it, and send as much as the window allows."""
        handles: list[tuple[object, Key]] = []
        while self.peer.events:
            event = self.peer.events.popleft()
            if isinstance(event, Confirmed):
                self._on_confirmed(event.reference)
            elif event.body.startswith(b"end of"):
                self._asked += 1
                self.peer.client.acknowledge([event.handle], f"e{self._asked}", False)
            else:
                key = self._on_delivered(event)
                if self._dice.random() < 0.8:
                    handles.append((event.handle, key))
        self._acknowledge(handles)
        while self._address and len(self._sent) < self._window:
            self._send(self._dice.randint(2, 6) if self._dice.random() < 0.15 else 0)
        self.peer.flush()

    def _on_confirmed(self, reference: str) -> None:
        ledger = self._chain.ledger
        group = self._acknowledged if reference in self._acknowledged else self._sent
        kind = "acknowledged" if group is self._acknowledged else "sent"
        unit = " in transactions" if reference in self._units else ""
        keys = group.pop(reference, [])
        self._chain.confirmed[f"{self._kind} {kind}{unit}"] += len(keys)
        for key in keys:
            if group is self._sent:
                ledger.receipted(self._queues, key)
            else:
                ledger.acked(self._queue, key)

    def _on_delivered(self, event: Delivered) -> Key:
        ledger, key = self._chain.ledger, self._chain.key(event)
        ledger.delivered(self._queue, key, event.marked is not False)
        if event.marked is False:
            if key.number < self._last.get(key.producer, -1):
                ledger.wrong.append(f"run {ledger.run}: {self._queue}: {key} arrived out of order")
            self._last[key.producer] = key.number
        return key

    def _acknowledge(self, handles: list[tuple[object, Key]]) -> None:
        for _, key in handles:
            self._chain.ledger.ack_asked(self._queue, key)
        unit = self._dice.random() < 0.2
        for group in [handles] if unit else [[handle] for handle in handles]:
            if group:
                self._asked += 1
                reference = f"a{self._asked}"
                self._acknowledged[reference] = [key for _, key in group]
                if unit:
                    self._units.add(reference)
                self.peer.client.acknowledge([handle for handle, _ in group], reference, unit)

    def _send(self, group: int) -> None:
        self._groups += bool(group)
        keys = []
        for _ in range(group or 1):
            keys.append(Key(self._number, self._next, self._groups if group else 0))
            self._next += 1
            self._chain.ledger.sent(self._queues, keys[-1])
        bodies = [key.body(self._dice.choice(LENGTHS)) for key in keys]
        reference = f"s{keys[0].number}"
        self._sent[reference] = keys
        if group:
            self._units.add(reference)
        self.peer.client.produce(self._address, bodies, reference, bool(group))


def run_chain(folder: Path, seed: int, runs: int, profile: str) -> Chain:
    """Kill ``runs`` times, or until something is wrong."""
    folder.mkdir()
    chain = Chain(folder, seed, profile)
    try:
        for _ in range(runs):
            chain.run()
            if chain.ledger.wrong:
                break
    finally:
        chain.end()
    return chain


@click.command(context_settings={"show_default": True})
@click.option("--runs", type=click.IntRange(1), default=500, help="How often it is killed.")
@click.option("--seed", default=1, help="All that the dice know.")
@click.option("--jobs", type=click.IntRange(1), default=2, help="Brokers at the same time.")
@click.option("--profile", type=click.Choice(sorted(FAMILIES)), default="artemis")
@click.option("--keep", type=click.Path(path_type=Path), help="Leave the brokers' files there.")
def main(runs: int, seed: int, jobs: int, profile: str, keep: Path | None) -> None:
    """Kill the reference broker under load, and see whether it kept what it promised."""
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="brokerproof-kill9-") as scratch,
        ThreadPoolExecutor(jobs) as pool,
    ):
        folder = keep or Path(scratch)
        folder.mkdir(exist_ok=True)
        share = [runs // jobs + (number < runs % jobs) for number in range(jobs)]
        futures = [
            pool.submit(run_chain, folder / f"chain-{number}", seed * 1000 + number, count, profile)
            for number, count in enumerate(share)
        ]
        chains = [future.result() for future in futures]
    total = {
        name: sum(asdict(chain.ledger.counts)[name] for chain in chains)
        for name in asdict(Counts())
    }
    recovery = sum(chain.kills_in_recovery for chain in chains)
    pages = sum(chain.pages_seen for chain in chains)
    wrong = [sentence for chain in chains for sentence in chain.ledger.wrong]
    done = sum(chain.ledger.run for chain in chains)
    click.echo(
        f"{done} kills under load and {recovery} more in recovery, seed {seed},"
        f" {time.monotonic() - began:.0f} s"
    )
    click.echo(
        f"{total['sent']} messages sent, {total['receipted']} receipted, {total['acknowledged']}"
        " acknowledged"
    )
    click.echo(
        f"{total['found']} found after restarts, {pages} page files left by kills, {len(wrong)}"
        " things wrong"
    )
    confirmed = sum((chain.confirmed for chain in chains), Counter[str]())
    click.echo("confirmed: " + ", ".join(f"{confirmed[kind]} {kind}" for kind in sorted(confirmed)))
    for sentence in wrong[:20]:
        click.echo(sentence)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
