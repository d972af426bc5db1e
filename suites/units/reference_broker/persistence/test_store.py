"""Producers, consumers, acknowledgements, transactions, cuts, restarts and failing disks, in any
order, against a ledger.

The disk has seeded random faults: writes that end in the middle, no space, failing fsyncs and,
after a loss of power, a torn last block and nothing that was not synced. Whatever happens, every
confirmed message is present, once per queue, in its producer's order; messages with a confirmed
acknowledgement are absent; a transaction is present completely or not at all.
"""

import os
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from brokerproof.harness.model.broker_io import Connected, PeerGone
from brokerproof.harness.model.enums import CloseHow, RoutingType
from brokerproof.harness.model.time import NS_PER_MS, seconds
from brokerproof.reference_broker.persistence.memory import DiskFaults
from brokerproof.reference_broker.persistence.store import StoreOptions
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.soak.ledger import Key, Ledger
from brokerproof.suites.units.drivers.broker import Received
from brokerproof.suites.units.drivers.persistence import StoringDriver, paging

GOOD = DiskFaults(write=5 * NS_PER_MS, read=5 * NS_PER_MS)
EXAMPLES = int(os.environ.get("BROKERPROOF_STORAGE_EXAMPLES", "20"))
"""The number of histories; these take a few seconds. ``tox -e soak`` runs many more."""
PLACES = {"q": ("q",), "t": ("t#a", "t#b")}
QUEUES = [queue for queues in PLACES.values() for queue in queues]


@dataclass
class Producer:
    """A session that sends; ``open`` has the requests that await a receipt, by the receipt's id."""

    conn: int
    address: str
    number: int
    next: int = 0
    groups: int = 0
    open: dict[str, list[Key]] = field(default_factory=dict)


@dataclass
class Consumer:
    """A session that consumes. ``held`` has its unacknowledged messages; ``open`` has the
    acknowledgements that await a receipt."""

    conn: int
    queue: str
    held: dict[str, Key] = field(default_factory=dict)
    open: dict[str, Key] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)


class Storing(RuleBasedStateMachine):
    nacks = True
    """True if refused messages are delivered again."""

    def chosen(self, limit: int, page: int, cache: int) -> Settings:
        """The broker's settings: the bytes of an address in memory, of a page, and of the page
        cache."""
        return paging(
            limit, page, page_max_cache_size=cache, max_read_page_bytes=-1, max_delivery_attempts=-1
        )

    def place(self, address: str, type_header: str) -> str:
        kind = RoutingType.MULTICAST if len(PLACES[address]) > 1 else RoutingType.ANYCAST
        return f"destination:{address}\n{type_header}:{kind}\n"

    def window(self, size: int) -> str:
        return f"consumer-window-size:{size}\n"

    @initialize(
        seed=st.integers(0, 2**16),
        limit=st.sampled_from([0, 1500, 4000, -1]),
        page=st.sampled_from([700, 3000]),
        segment=st.sampled_from([1500, 20_000]),
        cache=st.integers(1, 3),
    )
    def begin(self, seed: int, limit: int, page: int, segment: int, cache: int) -> None:
        chosen = self.chosen(limit, page, cache)
        self.driver = StoringDriver(chosen, StoreOptions(True, segment, 30_000), seed, GOOD)
        self.driver.settle()
        self.ledger = Ledger()
        self.volatile: set[Key] = set()
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.numbers = 0
        for queue in QUEUES:
            self._subscribe(queue, 0)  # durable subscriptions exist from here on
        self.driver.settle()
        self._forget_peers()

    # --- peers ------------------------------------------------------------------------------------

    def _open(self, client: str = "") -> int:
        driver = self.driver
        driver.conn += 1
        driver.feed(Connected(driver.conn, "stomp", "test"))
        name = f"client-id:{client}\n" if client else ""
        driver.say(driver.conn, f"CONNECT\naccept-version:1.2\nhost:h\n{name}\n\0")
        return driver.conn

    def _subscribe(self, queue: str, window: int) -> Consumer:
        address, _, name = queue.partition("#")
        where = self.place(address, "subscription-type") + (
            f"durable-subscriber-name:{name}\n" if name else ""
        )
        consumer = Consumer(self._open("c"), queue)
        self.driver.say(
            consumer.conn,
            f"SUBSCRIBE\nid:0\n{where}ack:client-individual\n{self.window(window)}\n\0",
        )
        self.consumers.append(consumer)
        return consumer

    def _gone(self, conn: int) -> None:
        self.driver.feed(PeerGone(conn, CloseHow.RESET))

    def _forget_peers(self) -> None:
        for client in (*self.producers, *self.consumers):
            self._gone(client.conn)
        self.producers.clear()
        self.consumers.clear()

    def _hear(self) -> None:
        closed = set(self.driver.closed)
        for producer in self.producers:
            for frame in self.driver.take(producer.conn):
                if frame.command == "RECEIPT":
                    for key in producer.open.pop(frame["receipt-id"]):
                        self.ledger.receipted(PLACES[producer.address], key)
        for consumer in self.consumers:
            for frame in self.driver.take(consumer.conn):
                if frame.command == "RECEIPT":
                    self.ledger.acked(consumer.queue, consumer.open.pop(frame["receipt-id"]))
                elif frame.command == "MESSAGE":
                    self._came(consumer, frame)
        self.producers = [producer for producer in self.producers if producer.conn not in closed]
        self.consumers = [consumer for consumer in self.consumers if consumer.conn not in closed]

    def _came(self, consumer: Consumer, frame: Received) -> None:
        key = Key.of(frame.body)
        redelivered = frame.headers.get("redelivered") == "true"
        self.ledger.delivered(consumer.queue, key, redelivered)
        consumer.held[frame["ack"]] = key
        if not redelivered:
            before = consumer.last.get(key.producer, -1)
            assert key.number > before, (
                f"{consumer.queue}: {key} came behind number {before} of its producer"
            )
            consumer.last[key.producer] = key.number

    # --- what peers do ----------------------------------------------------------------------------

    @precondition(lambda self: len(self.producers) < 3)
    @rule(address=st.sampled_from(sorted(PLACES)))
    def producer(self, address: str) -> None:
        self.numbers += 1
        self.producers.append(Producer(self._open(), address, self.numbers))

    @precondition(lambda self: self.producers)
    @rule(
        who=st.integers(0, 2),
        count=st.integers(1, 6),
        length=st.sampled_from([20, 300, 1500]),
        durable=st.booleans(),
        together=st.booleans(),
    )
    def send(self, who: int, count: int, length: int, durable: bool, together: bool) -> None:
        producer = self.producers[who % len(self.producers)]
        queues = PLACES[producer.address]
        head = f"SEND\n{self.place(producer.address, 'destination-type')}persistent:{str(durable).lower()}\n"  # noqa: E501
        producer.groups += together
        name = f"transaction:{producer.groups}\n"
        frames = f"BEGIN\n{name}\n\0" if together else ""
        keys = []
        for _ in range(count):
            key = Key(
                producer.number, producer.next, producer.groups if together and durable else 0
            )
            producer.next += 1
            keys.append(key)
            self.ledger.sent(queues, key)
            if not durable:
                self.volatile.add(key)
            receipt = f"m{key.number}"
            if not together:
                producer.open[receipt] = [key]
            frames += f"{head}{name if together else f'receipt:{receipt}' + chr(10)}\n{key.body(length).decode()}\0"  # noqa: E501
        if together:
            producer.open[f"t{producer.groups}"] = keys
            frames += f"COMMIT\n{name}receipt:t{producer.groups}\n\n\0"
        self.driver.say(producer.conn, frames)

    @precondition(lambda self: len(self.consumers) < 3)
    @rule(queue=st.sampled_from(QUEUES), window=st.sampled_from([0, 900, 6000, -1]))
    def consumer(self, queue: str, window: int) -> None:
        if queue == "q" or not any(consumer.queue == queue for consumer in self.consumers):
            self._subscribe(queue, window)

    @precondition(lambda self: any(consumer.held for consumer in self.consumers))
    @rule(
        picks=st.lists(st.integers(0, 50), min_size=1, max_size=12),
        good=st.booleans(),
        together=st.booleans(),
    )
    def acknowledge(self, picks: list[int], good: bool, together: bool) -> None:
        good = good or not self.nacks
        consumer = next(consumer for consumer in self.consumers if consumer.held)
        frames = "BEGIN\ntransaction:a\n\n\0" if together else ""
        part = "transaction:a\n" if together else ""
        for pick in picks:
            if not consumer.held:
                break
            ack = sorted(consumer.held)[pick % len(consumer.held)]
            key = consumer.held.pop(ack)
            if good:
                self.ledger.ack_asked(consumer.queue, key)
                if not together:
                    consumer.open[ack] = key
            receipt = f"receipt:{ack}\n" if good and not together else ""
            frames += f"{'ACK' if good else 'NACK'}\nid:{ack}\n{part}{receipt}\n\0"
        self.driver.say(consumer.conn, frames + ("COMMIT\ntransaction:a\n\n\0" if together else ""))

    @precondition(lambda self: self.producers or self.consumers)
    @rule(who=st.integers(0, 5))
    def cut(self, who: int) -> None:
        everybody = [*self.producers, *self.consumers]
        peer = everybody[who % len(everybody)]
        self._gone(peer.conn)
        self.producers = [producer for producer in self.producers if producer is not peer]
        self.consumers = [consumer for consumer in self.consumers if consumer is not peer]

    # --- what the world does ----------------------------------------------------------------------

    @rule(answers=st.integers(1, 8))
    def the_disk_answers(self, answers: int) -> None:
        for _ in range(answers):
            self.driver.step()

    @rule(
        writes=st.sampled_from([0.0, 0.0, 0.3, 1.0]),
        syncs=st.sampled_from([0.0, 0.0, 0.3]),
        reads=st.sampled_from([0.0, 0.3]),
        space=st.sampled_from([None, None, 500, 5000]),
    )
    def the_disk_changes(
        self, writes: float, syncs: float, reads: float, space: int | None
    ) -> None:
        room = None if space is None else self.driver.disk.used + space
        self.driver.disk.faults = DiskFaults(GOOD.write, GOOD.read, writes, syncs, reads, room)

    @rule(duration=st.sampled_from([NS_PER_MS, seconds(1), seconds(3)]))
    def time_passes(self, duration: int) -> None:
        self.driver.wait(duration)

    @rule(how=st.sampled_from(["power_loss", "kill", "restart"]))
    def the_broker_ends(self, how: str) -> None:
        if how == "restart":
            self._heal()
            self._hear()
        getattr(self.driver, how)()
        self.producers.clear()
        self.consumers.clear()
        for known in self.ledger.queues.values():
            for key in [key for key in known if key in self.volatile]:
                del known[key]
        self.look()

    def _heal(self) -> None:
        self.driver.disk.faults = GOOD
        self.driver.wait(seconds(3))

    @rule()
    def look(self) -> None:
        """Let all peers leave, repair the disk, and check the content of the queues."""
        self._hear()
        self._forget_peers()
        self._heal()
        for queue in QUEUES:
            consumer = self._subscribe(queue, -1)
            self.driver.wait(seconds(3))
            frames = [
                frame for frame in self.driver.take(consumer.conn) if frame.command == "MESSAGE"
            ]
            there = [
                (Key.of(frame.body), frame.headers.get("redelivered") == "true") for frame in frames
            ]
            self._forget_peers()
            self.driver.settle()
            self.ledger.found(queue, there)

    @invariant()
    def nothing_is_wrong(self) -> None:
        if hasattr(self, "ledger"):
            self._hear()
            assert self.ledger.wrong == []

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.look()
            assert self.ledger.wrong == []


TestStoring = Storing.TestCase
TestStoring.settings = settings(max_examples=EXAMPLES, stateful_step_count=25, deadline=None)
