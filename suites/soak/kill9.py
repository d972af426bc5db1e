"""Kills the reference broker with SIGKILL under load, again and again, and looks whether it kept
what it promised.

``python -m brokerproof.suites.soak.kill9 --runs 500 --seed 1 [--profile activemq]``. Each run
starts the real process on the files of the run before, looks at all that is in its queues, loads it
with producers (receipts, transactions, two kinds of queue and durable subscriptions) and consumers
that acknowledge, and kills it at an instant that the dice choose; sometimes it is killed before,
while it recovers. Exit 1 when anything receipted was lost, out of order, there twice, or there
again without the mark of a redelivery.
"""

from __future__ import annotations

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
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from brokerproof.suites.soak.ledger import Counts, Key, Ledger

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<security-enabled>false</security-enabled><journal-file-size>64K</journal-file-size>
<acceptors><acceptor name="stomp">tcp://127.0.0.1:0?protocols=STOMP</acceptor></acceptors>
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
<transportConnectors><transportConnector name="stomp" uri="stomp://127.0.0.1:0"/></transportConnectors></broker>
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Family:
    """How a broker is configured and spoken to. ``place`` makes the headers that name an address,
    which is a topic or not, from its name and the name of a header for its kind; ``window`` one
    about how much a consumer may have, in octets, -1 for all."""

    options: tuple[str, ...]
    configuration: str
    place: Callable[[str, bool, str], str]
    window: Callable[[int], str]


FAMILIES = {
    "artemis": Family(
        (),
        CONFIGURATION,
        lambda name, topic, header: (
            f"destination:{name}\n{header}:{'MULTICAST' if topic else 'ANYCAST'}\n"
        ),
        lambda octets: f"consumer-window-size:{octets}\n",
    ),
    "activemq": Family(
        ("--profile", "activemq"),
        ACTIVEMQ,
        lambda name, topic, header: f"destination:/{'topic' if topic else 'queue'}/{name}\n",
        lambda octets: f"activemq.prefetchSize:{10_000 if octets < 0 else octets // 500}\n",
    ),
}
PLACES = {
    "kept.queue": ("kept.queue",),
    "paged.queue": ("paged.queue",),
    "paged.topic": ("paged.topic#a", "paged.topic#b"),
}
"""Where producers send, and the queues that a message comes to."""
MOST = 400
"""Messages in a queue from which on producers leave it alone."""
WITHIN_S = 20.0
"""How long the broker may take for anything."""


class Stuck(Exception):
    """The broker did not do in time what was waited for; one sentence."""


class Peer:
    """A STOMP session over a socket. Bodies hold no NUL."""

    def __init__(self, port: int, client_id: str = "") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), WITHIN_S)
        self._rest = b""
        self.frames: deque[tuple[str, dict[str, str], bytes]] = deque()
        name = f"client-id:{client_id}\n" if client_id else ""
        self.say(f"CONNECT\naccept-version:1.2\nhost:h\n{name}\n\0".encode())
        self.wait("CONNECTED")

    def say(self, octets: bytes) -> None:
        self.socket.sendall(octets)

    def read(self) -> None:
        """Takes what is there, or waits until something is. Raises ``ConnectionError`` at the end
        of the stream."""
        octets = self.socket.recv(262144)
        if not octets:
            raise ConnectionError("the broker closed the connection")
        *whole, self._rest = (self._rest + octets).split(b"\0")
        for frame in whole:
            head, _, body = frame.lstrip(b"\n").partition(b"\n\n")
            command, *lines = head.decode().split("\n")
            self.frames.append(
                (command, dict(line.split(":", 1) for line in reversed(lines)), body)
            )

    def wait(self, command: str) -> tuple[str, dict[str, str], bytes]:
        """The next frame, which is that command. Raises :class:`Stuck`."""
        while not self.frames:
            try:
                self.read()
            except TimeoutError:
                raise Stuck(f"no {command} came within {WITHIN_S} s") from None
        frame = self.frames.popleft()
        if frame[0] != command:
            raise Stuck(f"{frame[0]} came instead of {command}: {frame[1].get('message')}")
        return frame

    def close(self) -> None:
        self.socket.close()


class Chain:
    """One folder of data, and the runs on it. ``dice`` decides everything that may be decided."""

    def __init__(self, folder: Path, seed: int, family: Family) -> None:
        self.folder = folder
        self.family = family
        self.dice = random.Random(seed)
        self.ledger = Ledger()
        self.kills_in_recovery = 0
        self.pages_seen = 0
        self._producers = 0
        (folder / "broker.xml").write_text(family.configuration)
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "brokerproof.suites.soak.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._asked, self._answers = self._nursery.stdin, self._nursery.stdout

    def start(self) -> int:
        """A new broker process, whose id it returns; the one before has been killed."""
        files = ("--config", str(self.folder / "broker.xml"), "--data", str(self.folder / "data"))
        options = [*self.family.options, *files]
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
            port = json.loads(self._told())["stomp"]
            for queue in (queue for queues in PLACES.values() for queue in queues):
                self.look(port, queue)
            self.load(port)
        finally:
            os.kill(process, signal.SIGKILL)
        self.pages_seen += len(list((self.folder / "data").rglob("*.page")))

    def look(self, port: int, queue: str) -> None:
        """Everything that is in ``queue``, without taking it away: it comes up to a message that is
        sent now."""
        client_id, frame = self.subscribe(queue, -1)
        consumer = Peer(port, client_id)
        consumer.say(frame)
        consumer.wait("RECEIPT")
        address, _, name = queue.partition("#")
        to = self.family.place(address, bool(name), "destination-type")
        producer = Peer(port)
        producer.say(f"SEND\n{to}end:{queue}\n\nend\0".encode())
        there: list[tuple[Key, bool]] = []
        while True:
            _, headers, body = consumer.wait("MESSAGE")
            if body != b"end":
                there.append((Key.of(body), headers.get("redelivered") == "true"))
                continue
            consumer.say(f"ACK\nid:{headers['ack']}\n\n\0".encode())
            if headers["end"] == queue:
                break
        consumer.say(b"DISCONNECT\nreceipt:bye\n\n\0")
        consumer.wait("RECEIPT")
        consumer.close()
        producer.close()
        self.ledger.found(queue, there)

    def subscribe(self, queue: str, window: int) -> tuple[str, bytes]:
        """The client-id and the SUBSCRIBE frame of whoever consumes ``queue``."""
        address, _, name = queue.partition("#")
        where = self.family.place(address, bool(name), "subscription-type")
        if name:
            where += f"durable-subscriber-name:{name}\n"
        frame = f"SUBSCRIBE\nid:0\n{where}ack:client-individual\n{self.family.window(window)}receipt:sub\n\n\0"  # noqa: E501
        return (f"client-{name}" if name else ""), frame.encode()

    def end(self) -> None:
        """No more runs."""
        self._asked.close()
        self._nursery.wait()
        self._answers.close()

    # --- load -------------------------------------------------------------------------------------

    def load(self, port: int) -> None:
        """Producers and consumers until the instant of the kill, which comes at the end of this."""
        workers: list[Producer | Consumer] = []
        for address, queues in PLACES.items():
            workers += [Consumer(port, queue, self) for queue in queues if self.dice.random() < 0.7]
            if max(len(self.ledger.queues[queue]) for queue in queues) < MOST:
                for _ in range(self.dice.randint(1, 2)):
                    self._producers += 1
                    workers.append(Producer(port, address, queues, self._producers, self))
        until = time.monotonic() + self.dice.uniform(0.005, 0.35)
        by_socket = {worker.peer.socket: worker for worker in workers}
        for worker in workers:
            worker.go_on()
        while (left := until - time.monotonic()) > 0:
            for ready in select.select(list(by_socket), [], [], left)[0]:
                by_socket[ready].peer.read()
                by_socket[ready].go_on()
        for worker in workers:
            worker.peer.close()


class Producer:
    """Sends and counts receipts: ``window`` messages are without one at most. Some go in
    transactions."""

    def __init__(
        self, port: int, address: str, queues: tuple[str, ...], number: int, chain: Chain
    ) -> None:
        self.peer = Peer(port)
        self._queues, self._number, self._chain = queues, number, chain
        self._dice = random.Random(chain.dice.random())
        self._window = self._dice.choice((1, 4, 32))
        self._head = f"SEND\n{chain.family.place(address, len(queues) > 1, 'destination-type')}persistent:true\n"  # noqa: E501
        self._next = self._groups = 0
        self._open: dict[str, list[Key]] = {}

    def go_on(self) -> None:
        while self.peer.frames:
            command, headers, _ = self.peer.frames.popleft()
            if command != "RECEIPT":
                raise Stuck(f"a producer got {command}: {headers.get('message')}")
            for key in self._open.pop(headers["receipt-id"]):
                self._chain.ledger.receipted(self._queues, key)
        while len(self._open) < self._window:
            self._send(self._dice.randint(2, 6) if self._dice.random() < 0.15 else 0)

    def _send(self, group: int) -> None:
        self._groups += bool(group)
        frames = b""
        keys = []
        for _ in range(group or 1):
            key = Key(self._number, self._next, self._groups if group else 0)
            self._next += 1
            keys.append(key)
            self._chain.ledger.sent(self._queues, key)
            header = f"transaction:{self._groups}\n" if group else f"receipt:m{key.number}\n"
            frames += (
                f"{self._head}{header}\n".encode()
                + key.body(self._dice.choice((20, 400, 3000)))
                + b"\0"
            )
        if group:
            name = f"transaction:{self._groups}\n"
            frames = (
                f"BEGIN\n{name}\n\0".encode()
                + frames
                + f"COMMIT\n{name}receipt:t{self._groups}\n\n\0".encode()
            )
        self._open[f"t{self._groups}" if group else f"m{keys[0].number}"] = keys
        self.peer.say(frames)


class Consumer:
    """Takes messages and acknowledges most of them, each with a receipt."""

    def __init__(self, port: int, queue: str, chain: Chain) -> None:
        client_id, frame = chain.subscribe(queue, 20_000)
        self.peer = Peer(port, client_id)
        self._queue, self._chain = queue, chain
        self._dice = random.Random(chain.dice.random())
        self._open: dict[str, Key] = {}
        self.peer.say(frame)

    def go_on(self) -> None:
        ledger, acks = self._chain.ledger, []
        while self.peer.frames:
            command, headers, body = self.peer.frames.popleft()
            if command == "RECEIPT":
                if headers["receipt-id"] != "sub":
                    ledger.acked(self._queue, self._open.pop(headers["receipt-id"]))
                continue
            if command != "MESSAGE":
                raise Stuck(f"a consumer got {command}: {headers.get('message')}")
            if body == b"end":
                acks.append(f"ACK\nid:{headers['ack']}\n\n\0")
                continue
            key = Key.of(body)
            ledger.delivered(self._queue, key, headers.get("redelivered") == "true")
            if self._dice.random() < 0.8:
                self._open[headers["ack"]] = key
                ledger.ack_asked(self._queue, key)
                acks.append(f"ACK\nid:{headers['ack']}\nreceipt:{headers['ack']}\n\n\0")
        if acks:
            self.peer.say("".join(acks).encode())


def _chain(folder: Path, seed: int, runs: int, family: Family) -> Chain:
    folder.mkdir()
    chain = Chain(folder, seed, family)
    try:
        for _ in range(runs):
            chain.run()
            if chain.ledger.wrong:
                break
    finally:
        chain.end()
    return chain


@click.command()
@click.option(
    "--runs",
    type=click.IntRange(1),
    default=500,
    show_default=True,
    help="How often the broker is killed.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="All that the dice know.")
@click.option(
    "--jobs", type=click.IntRange(1), default=2, show_default=True, help="Brokers at the same time."
)
@click.option(
    "--profile",
    type=click.Choice(sorted(FAMILIES)),
    default="artemis",
    show_default=True,
    help="Which kind of broker.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    help="Where the brokers' files are left, for a look at them.",
)
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
            pool.submit(
                _chain, folder / f"chain-{each}", seed * 1000 + each, count, FAMILIES[profile]
            )
            for each, count in enumerate(share)
        ]
        chains = [future.result() for future in futures]
    total = {
        name: sum(asdict(chain.ledger.counts)[name] for chain in chains)
        for name in asdict(Counts())
    }
    recovery, pages = (
        sum(chain.kills_in_recovery for chain in chains),
        sum(chain.pages_seen for chain in chains),
    )
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
    for sentence in wrong[:20]:
        click.echo(sentence)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
