"""Kills brokers under load, again and again, and checks that they keep their promises.

``python -m brokerproof.suites.soak.deaths --target artemis --runs 50 --seed 1``. Each run starts
the real process on the files of the previous run and reads everything in its queues. Clients of
every protocol then load it, sending and acknowledging on the same connection (confirmations,
transactions, large bodies that stream back, two kinds of queue and durable subscriptions), until
the run kills it at a random instant, sometimes already during its recovery. Before that, it may be
stopped for a while (SIGSTOP), or its disk may be nearly or completely full; afterwards every
producer must continue. Exit 1 if a confirmed message was lost, reordered, altered, duplicated, or
redelivered without the mark, if a delivered message is lost, if a transaction is incomplete, or if
a producer does not continue. Faults that a real broker's manual disclaims are only counted
(``brokers.py``).
"""

import random
import select
import signal
import socket
import sys
import tempfile
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import click

from brokerproof.suites.soak.brokers import ENDS_WITHIN_S, FAMILIES, Disk, Stuck
from brokerproof.suites.soak.clients import CLIENTS
from brokerproof.suites.soak.clients.client import Client, Confirmed, Delivered, Event, Refused
from brokerproof.suites.soak.clients.stomp import StompClient
from brokerproof.suites.soak.ledger import Key, Ledger

MOST = 400
"""Clients stop sending to a queue that has this many messages."""
LENGTHS = (20, 20, 400, 400, 400, 3000, 3000, 150_000)
"""Body sizes in bytes. The last is beyond the size from which both families stream bodies from
separate files."""
WITHIN_S = 60.0
"""The broker must do anything within this time."""
GOES_ON_WITHIN_S = 120.0
"""With room, the broker must continue within this time: RabbitMQ checks the disk every ten
seconds."""
FULL_S = 12.0
"""The disk is full for at most this long."""
ROOM = {"low": 25_000_000, "full": 0}
"""Bytes left on the disk. The first is less than every real broker requires by default: 50 MB
(disk_free_limit), 10 % (max-disk-usage, storeUsage)."""
HOW = ("kill", "kill", "terminate", "pause", *ROOM)


class Peer:
    """A client and its socket, which never blocks."""

    def __init__(self, port: int, client: Client) -> None:
        self.client = client
        self.socket = socket.create_connection(("127.0.0.1", port), WITHIN_S)
        self.socket.setblocking(False)
        self.events: deque[Event] = deque()
        self.unsent = bytearray()
        self.flush()

    def flush(self) -> None:
        """Send the client's output as far as the broker reads it."""
        self.unsent += self.client.take()
        try:
            del self.unsent[: self.socket.send(self.unsent)]
        except BlockingIOError:
            return

    def read(self) -> None:
        """Read what has arrived. Raises ``ConnectionError`` at EOF, or :class:`Refused`."""
        data = self.socket.recv(262144)
        if not data:
            raise ConnectionError("the broker closed the connection")
        self.events += self.client.on_bytes(data)
        self.flush()

    def wait(self) -> Event:
        """Return the next event. Raises :class:`Stuck`."""
        while not self.events:
            writes = [self.socket] if self.unsent else []
            readable, writable, _ = select.select([self.socket], writes, [], WITHIN_S)
            if readable:
                self.read()
            elif writable:
                self.flush()
            else:
                raise Stuck(f"{self.client.name}: nothing arrived in {WITHIN_S} s")
        return self.events.popleft()

    def close(self) -> None:
        self.socket.close()


class Worker:
    """Sends to ``address`` and consumes from ``queue``, if given, on one connection."""

    def __init__(
        self, peer: Peer, address: str, queues: tuple[str, ...], queue: str, chain: "Chain"
    ) -> None:
        self.peer = peer
        self._address, self._queues, self._queue, self._chain = address, queues, queue, chain
        self._number = chain.producers
        self.open = True
        self.confirmed = 0
        self._dice = random.Random(chain.dice.random())
        self._window = self._dice.choice((1, 4, 32))
        self._next = self._groups = self._asked = 0
        self._sent: dict[str, list[Key]] = {}
        self._acknowledged: dict[str, list[Key]] = {}
        self._units: set[str] = set()
        self._large: set[str] = set()
        self._last: dict[int, int] = {}
        self._kind = type(peer.client).__name__.removesuffix("Client")
        if queue:
            peer.client.consume(queue, self._dice.choice((20_000, 400_000)))

    def __str__(self) -> str:
        return f"{self._kind} to {self._address}, producer {self._number}, {sorted(self._sent)[:3]}"

    @property
    def waits(self) -> bool:
        """True if a send has not been confirmed yet."""
        return self.open and bool(self._sent)

    @property
    def in_unit(self) -> bool:
        return any(reference in self._units for reference in self._sent)

    @property
    def in_large(self) -> bool:
        return len(self.peer.unsent) > 0 or not self._large.isdisjoint(self._sent)

    def leave(self, reason: str) -> None:
        self._chain.ledger.note(f"{self}: {reason}")
        self.open = False

    def go_on(self) -> None:
        """Record arrivals, acknowledge most of them, and send as much as the window allows."""
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
        self._chain.seen[f"{self._kind} {kind}{unit}"] += len(keys)
        self.confirmed += group is self._sent
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
                ledger.say("order", f"{self._queue}: {key} arrived out of order")
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
        if max(map(len, bodies)) == max(LENGTHS):
            self._large.add(reference)
        if group:
            self._units.add(reference)
        self.peer.client.produce(self._address, bodies, reference, bool(group))


class Load:
    """Workers that are served together. The broker may refuse or drop those in ``tolerant``."""

    def __init__(self, workers: list[Worker]) -> None:
        self.workers = workers
        self.tolerant = False
        for worker in workers:
            worker.go_on()

    def serve(self, for_s: float, quiet_s: float = 0) -> bool:
        """Serve the workers for a time, or until nothing has been confirmed for ``quiet_s``; then
        return True."""
        now = time.monotonic()
        until, last, before = now + for_s, now, self._confirmed()
        while now < until and not (quiet_s and now - last > quiet_s):
            there = {worker.peer.socket: worker for worker in self.workers if worker.open}
            writes = [key for key, worker in there.items() if worker.peer.unsent]
            ready = select.select(list(there), writes, [], min(0.2, until - now))
            for socket_ in {*ready[0], *ready[1]}:
                self._serve(there[socket_], readable=socket_ in ready[0])
            now = time.monotonic()
            if self._confirmed() != before:
                last, before = now, self._confirmed()
        return now < until

    def _confirmed(self) -> int:
        return sum(worker.confirmed for worker in self.workers)

    def _serve(self, worker: Worker, *, readable: bool) -> None:
        try:
            if readable:
                worker.peer.read()
            worker.go_on()
        except (OSError, Refused) as problem:
            if not self.tolerant:
                raise
            worker.leave(str(problem))

    def count(self, seen: Counter[str]) -> None:
        """Count the operations in progress."""
        seen["in the midst of a transaction"] += any(worker.in_unit for worker in self.workers)
        seen["in the midst of a large message"] += any(worker.in_large for worker in self.workers)


class Chain:
    """One data folder, and the runs on it. ``dice`` decides everything random."""

    def __init__(self, folder: Path, seed: int, target: str) -> None:
        self.folder = folder
        self.family = FAMILIES[target]
        self.dice = random.Random(seed)
        self.ledger = Ledger(disclaimed=self.family.disclaimed)
        self.seen: Counter[str] = Counter()
        """Counts by kind: deaths, confirmations, operations in progress at a kill."""
        self.producers = self._clients = 0
        self._how: tuple[str, ...] = HOW
        try:
            self._disk: Disk | None = Disk(folder / "data") if self.family.keeps else None
        except Stuck as problem:
            self._disk = None
            self.seen[f"not tried: low, full ({problem})"] += 1
        if self._disk is None:
            self._how = tuple(how for how in HOW if how not in ROOM)
        self._broker = self.family.start(folder)

    def run(self) -> None:
        """Start the broker, read its queues, load it and kill it. Raises :class:`Stuck` if no
        further run is possible."""
        self.ledger.run += 1
        if self.dice.random() < 0.1:
            self._broker.start(self.dice.uniform(0.0, self.family.starts_s))
            self.seen["kills in recovery"] += 1
        ports = self._broker.start()
        try:
            for queue in (queue for queues in self.family.places.values() for queue in queues):
                self.look(ports, queue)
            self._load(ports, self.dice.choice(self._how))
        except (OSError, Refused, Stuck) as problem:
            raise Stuck(f"run {self.ledger.run}: {problem}") from problem
        finally:
            if self._disk is not None:
                self._disk.clear()
            self._broker.signal(signal.SIGKILL)
        if not self.family.keeps:
            self.ledger.queues.clear()  # nothing may be left

    def look(self, ports: dict[str, int], queue: str) -> None:
        """Return the messages in ``queue`` before one sent now, without removing any."""
        kind = self.family.protocols[0]
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
        """Return the key of the message that ``event`` delivers. Record an altered body as a
        mistake."""
        key = Key.of(event.body)
        if event.body != key.body(len(event.body)):
            self.ledger.say("altered", f"the body of {key} was altered")
        return key

    def _client(self, kind: str, queue: str) -> Client:
        """Return a client. A client for a durable subscription has the subscription's client-id."""
        self._clients += 1
        name = queue.partition("#")[2]
        client = CLIENTS[kind]
        return client(f"client-{name}" if name else f"c{self._clients}", self.family.naming)

    def end(self) -> None:
        self._broker.close()
        if self._disk is not None:
            self._disk.close()

    # --- load -------------------------------------------------------------------------------------

    def _load(self, ports: dict[str, int], how: str) -> None:
        """Run clients until the broker is killed, which ends this call."""
        load = Load(self._workers(ports))
        some = self.dice.uniform(0.01, self.family.loaded_s)
        load.serve(some)
        self.ledger.note(how)
        if how == "pause":
            self._broker.signal(signal.SIGSTOP)
            load.serve(some)
            self._broker.signal(signal.SIGCONT)
            self._goes_on(load, "SIGCONT")
        if how in ROOM:
            self._fill(load, ROOM[how])
        load.count(self.seen)
        self.seen[how] += 1
        self.seen["kills with pages on disk"] += any((self.folder / "data").rglob("*.page"))
        if how == "terminate":
            self._broker.signal(signal.SIGTERM)
            load.tolerant = True
            load.serve(0.2)
            if not self._broker.ended(ENDS_WITHIN_S):
                self.seen["still there after SIGTERM"] += 1
        for worker in load.workers:
            worker.peer.close()

    def _workers(self, ports: dict[str, int]) -> list[Worker]:
        dice, workers = self.dice, []
        for address, queues in self.family.places.items():
            count = max(len(self.ledger.queues.get(queue, ())) for queue in queues)
            for number in range(dice.randint(2, 3)):
                kind = "stomp" if len(queues) > 1 else dice.choice(self.family.protocols)
                shared = len(queues) == 1  # a durable subscription has one consumer
                consumes = (shared or number < len(queues)) and dice.random() < 0.7
                queue = queues[0 if shared else number] if consumes else ""
                self.producers += 1
                client = self._client(kind, queue)
                peer = Peer(ports[client.protocol], client)
                sends = count < MOST and dice.random() < 0.8
                workers.append(Worker(peer, address if sends else "", queues, queue, self))
        return workers

    def _fill(self, load: Load, left: int) -> None:
        """Fill the disk except for ``left`` bytes for a while."""
        assert self._disk is not None
        load.tolerant = True
        self._disk.fill(left)
        self.seen["disks where nothing was confirmed any more"] += load.serve(FULL_S, quiet_s=2.0)
        self._disk.clear()
        self.ledger.note("there is room")
        if self._broker.ended():
            self.seen["brokers that ended on a full disk"] += 1
        else:
            self._goes_on(load, "there was room")

    def _goes_on(self, load: Load, since: str) -> None:
        """Check that every worker waiting for a confirmation gets one or an error."""
        waiting = {worker: worker.confirmed for worker in load.workers if worker.waits}
        until = time.monotonic() + GOES_ON_WITHIN_S
        while waiting and time.monotonic() < until and not self._broker.ended():
            load.serve(0.05)
            waiting = {
                worker: before
                for worker, before in waiting.items()
                if worker.open and worker.confirmed == before
            }
        self.seen["producers that went on"] += sum(worker.open for worker in load.workers)
        for worker in waiting if not self._broker.ended() else ():
            self.ledger.say("stuck", f"{worker} still waits {GOES_ON_WITHIN_S} s after {since}")


def run_chain(folder: Path, seed: int, runs: int, target: str) -> Chain:
    """Kill the broker ``runs`` times, or until it no longer serves clients."""
    folder.mkdir()
    chain = Chain(folder, seed, target)
    with (folder / "record.txt").open("w", 1) as record:
        chain.ledger.record = record
        try:
            for _ in range(runs):
                chain.run()
        except Stuck as problem:
            chain.ledger.wrong.append(str(problem))
        finally:
            chain.end()
    return chain


@click.command(context_settings={"show_default": True})
@click.option("--target", type=click.Choice(sorted(FAMILIES)), default="reference")
@click.option("--runs", type=click.IntRange(1), default=40, help="How often the broker is killed.")
@click.option("--seed", default=1, help="Seed of all random choices.")
@click.option("--jobs", type=click.IntRange(1), default=1, help="Number of concurrent brokers.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep files and records there.")
def main(target: str, runs: int, seed: int, jobs: int, keep: Path | None) -> None:
    """Kill a broker under load, and check that it kept its promises."""
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="brokerproof-deaths-") as scratch,
        ThreadPoolExecutor(jobs) as pool,
    ):
        folder = keep or Path(scratch)
        folder.mkdir(exist_ok=True, parents=True)
        share = [runs // jobs + (number < runs % jobs) for number in range(jobs)]
        futures = [
            pool.submit(run_chain, folder / f"chain-{number}", seed * 1000 + number, count, target)
            for number, count in enumerate(share)
        ]
        chains = [future.result() for future in futures]
    counts = Counter[str]()
    for chain in chains:
        counts.update(asdict(chain.ledger.counts))
    seen = sum((chain.seen for chain in chains), Counter[str]())
    notes = sum((chain.ledger.notes for chain in chains), Counter[str]())
    wrong = [sentence for chain in chains for sentence in chain.ledger.wrong]
    done = sum(chain.ledger.run for chain in chains)
    click.echo(f"{target}: {done} runs, seed {seed}, {time.monotonic() - began:.0f} s")
    for title, counted in (("messages", counts), ("seen", seen), ("disclaimed", notes)):
        click.echo(f"{title}: " + ", ".join(f"{counted[kind]} {kind}" for kind in sorted(counted)))
    click.echo(f"{len(wrong)} problems")
    for sentence in wrong[:20]:
        click.echo(sentence)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
