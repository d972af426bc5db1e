"""Messages that ActiveMQ's cursors move to disk leave memory and return in order, even after a
restart."""

from collections.abc import Sequence

import pytest

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import seconds
from brokerproof.reference_broker.families.activemq.cursor_queue import CursorQueue
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.persistence.memory import DiskFaults
from brokerproof.reference_broker.persistence.store import StoreOptions
from brokerproof.reference_broker.settings.activemq import Cursor
from brokerproof.suites.units.drivers import activemq
from brokerproof.suites.units.drivers.activemq import account, policy
from brokerproof.suites.units.drivers.broker import Received
from brokerproof.suites.units.drivers.persistence import SMALL, StoringDriver, numbered

LIMIT = 20_000
"""Bytes of memory of the queue q."""
LENGTH = 1000
COST = 1024 + 4 + LENGTH
PAGE_IN, PREFETCH = 5, 50
WIDE = "activemq.prefetchSize:10000\n"


class Shelf(StoringDriver):
    """An ActiveMQ-like broker with a disk. If ``options`` is None, it runs without ``--data``."""

    prefix = "/queue/"
    wide = WIDE

    def __init__(self, cursor: Cursor, options: StoreOptions | None = None) -> None:
        about = policy(
            "queue://q",
            memory_limit=LIMIT,
            cursor=cursor,
            max_page_size=PAGE_IN,
            producer_flow_control=False,
        )
        super().__init__(activemq.settings(activemq.configured(about)), options)
        self.settle()

    @property
    def queue(self) -> CursorQueue:
        found = self.broker._shared.router.addresses.anycast_queue("queue://q")
        assert isinstance(found, CursorQueue)
        return found

    @property
    def resident(self) -> int:
        """Return the messages of q in memory: as entries, on pages, or kept by the journal."""
        store = self.broker._store
        assert store is not None
        pages = store.pages.open("queue://q").pages.values()
        entries = len(self.queue._ready) + self.queue.unsettled
        on_pages = sum(0 if page.content is None else page.records - 1 for page in pages)
        return max(entries, len(store.journal.live)) + on_pages

    def fill(self, conn: int, bodies: Sequence[str], persistent: bool = False) -> int:
        """Send ``bodies`` in groups; return the largest number in memory at one time."""
        most = 0
        for at in range(0, len(bodies), 40):
            self.send(conn, *bodies[at : at + 40], persistent=persistent)
            self.settle()
            most = max(most, self.resident)
        assert len(self.receipts(conn)) == len(bodies)
        return most

    def consume(self, conn: int, count: int) -> list[str]:
        """Consume ``count`` messages, a few at a time, and acknowledge each."""
        frames = self.subscribe(
            conn, "client-individual", headers=f"activemq.prefetchSize:{PREFETCH}\n"
        )
        got: list[Received] = []
        while frames:
            got += frames
            self.say(conn, "".join(f"ACK\nid:{frame['ack']}\n\n\0" for frame in frames))
            self.settle()
            frames = [frame for frame in self.take(conn) if frame.command == "MESSAGE"]
            assert self.resident <= MOST
        assert len(got) == count
        return [frame.body.decode() for frame in got]

    def nothing_is_used(self) -> None:
        usage = account(self, "queue://q")
        assert usage.memory.used == 0
        assert usage.usage.store.used == 0
        assert usage.usage.temp.used == 0
        assert usage.messages == 0


def bodies(count: int, length: int = LENGTH) -> list[str]:
    return numbered(count, lambda each: f"{each}.".ljust(length, "x"))


ON_PAGES = 3 * 262_144 // LENGTH
"""Messages of three pages: the last one, the one being read, and the next."""
MOST = LIMIT // COST + PAGE_IN + PREFETCH + ON_PAGES
"""The most messages of q in memory, whatever its length."""


@pytest.mark.parametrize(
    ("cursor", "persistent", "options"),
    [
        (Cursor.FILE, False, None),
        (Cursor.STORE, True, None),
        (Cursor.STORE, True, StoreOptions(journaled=True)),
    ],
)
def test_memory_has_a_bound_and_the_queue_has_none(
    cursor: Cursor, persistent: bool, options: StoreOptions | None
) -> None:
    driver = Shelf(cursor, options)
    producer, consumer = driver.connect(), driver.connect()
    sent = bodies(1750)
    assert driver.fill(producer, sent, persistent) <= MOST < len(sent) // 2
    usage = account(driver, "queue://q")
    assert usage.memory.used <= LIMIT
    assert len(driver.queue) == len(sent)
    size = sum(
        len(file.content) for name, file in driver.disk._files.items() if name.startswith("paging/")
    )
    if persistent:
        assert (usage.usage.temp.used, usage.usage.store.used) == (0, len(sent) * COST)
    else:
        assert size - 1000 <= usage.usage.temp.used <= size, "by the bytes on disk"
    assert driver.consume(consumer, len(sent)) == sent
    driver.nothing_is_used()
    assert not [name for name in driver.disk._files if name.endswith(".page")], (
        "a file goes when all of it is done with"
    )


@pytest.mark.parametrize("cursor", [Cursor.FILE, Cursor.STORE])
def test_kinds_stay_in_order_across_memory_and_disk(cursor: Cursor) -> None:
    driver = Shelf(cursor)
    producer, consumer = driver.connect(), driver.connect()
    sent = bodies(60)
    for at, each in enumerate(sent):
        driver.send(producer, each, persistent=at % 3 == 1)
    held = driver.subscribe(consumer, "client-individual", headers="activemq.prefetchSize:7\n")
    assert driver.queue.unsettled == 7
    later = bodies(9, LENGTH + 1)
    for at, each in enumerate(later):
        driver.send(producer, each, persistent=at % 2 == 1)
    driver.say(
        consumer,
        "".join(f"ACK\nid:{frame['ack']}\n\n\0" for frame in held[::2]) + "UNSUBSCRIBE\nid:q\n\n\0",
    )
    expected = [frame.body.decode() for frame in held[1::2]] + sent[7:] + later
    assert driver.drain() == expected
    driver.subscribe(consumer, "auto", headers=WIDE)
    driver.wait()
    driver.nothing_is_used()


def test_what_is_not_wanted_becomes_a_dead_letter_from_disk_too() -> None:
    driver = Shelf(Cursor.STORE, SMALL)
    producer, consumer = driver.connect(), driver.connect()
    sent = bodies(30)
    driver.fill(producer, sent, persistent=True)
    assert driver.queue.spool is not None
    assert driver.queue.spool.cursor.on_disk.messages > 10
    for frame in driver.subscribe(consumer, "client-individual", headers=WIDE):
        driver.say(consumer, f"NACK\nid:{frame['ack']}\n\n\0")
    driver.settle()
    assert (len(driver.queue), account(driver, "queue://q").memory.used) == (0, 0)
    assert account(driver, "queue://ActiveMQ.DLQ").messages == len(sent)
    driver.kill()
    assert driver.drain("ActiveMQ.DLQ") == sent
    assert driver.drain() == []


def test_a_queue_that_is_deleted_gives_everything_back() -> None:
    driver = Shelf(Cursor.STORE)
    producer = driver.connect()
    for at, each in enumerate(bodies(40)):
        driver.send(producer, each, persistent=at % 2 == 0)
    driver.settle()
    driver.broker._shared.router.addresses.remove("queue://q")
    driver.wait()
    driver.nothing_is_used()
    driver.send(producer, "after").settle()
    assert driver.drain() == ["after"]


class Watcher:
    def __init__(self) -> None:
        self.cursor = 0
        self.seen: list[str] = []

    def has_room(self) -> bool:
        return True

    def wait_for(self, batch: int) -> None:
        pass

    def show(self, entry: Entry) -> None:
        self.seen.append(entry.message.body.decode())


def test_who_looks_on_sees_what_lies_on_disk_and_sees_it_once() -> None:
    driver = Shelf(Cursor.FILE)
    producer, early, late = driver.connect(), Watcher(), Watcher()
    sent = bodies(400)
    driver.fill(producer, sent[:2])
    driver.queue.browsers.add(early)
    assert early.seen == sent[:2]
    driver.fill(producer, sent[2:])
    driver.queue.browsers.add(late)
    driver.wait()
    assert early.seen == late.seen == sent
    assert len(driver.queue) == len(sent), "nothing was taken away"


def test_a_selector_looks_through_a_page_of_what_lies_on_disk() -> None:
    driver = Shelf(Cursor.FILE)
    producer, consumer, other = driver.connect(), driver.connect(), driver.connect()
    wanted = "receipt:late\nkind:late\n"
    driver.fill(producer, bodies(PAGE_IN * 2))
    driver.say(producer, f"SEND\ndestination:/queue/q\n{wanted}\nlate\0")
    assert driver.subscribe(consumer, headers="selector:kind = 'late'\n") == []
    assert len(driver.subscribe(other, headers=WIDE)) == PAGE_IN * 2, "the page was in its way"
    driver.wait()
    assert [frame.body for frame in driver.take(consumer)] == [b"late"]


@pytest.mark.parametrize("how", ["kill", "power_loss", "restart"])
@pytest.mark.parametrize("cursor", Cursor)
def test_what_is_persistent_survives_and_nothing_else_does(cursor: Cursor, how: str) -> None:
    driver = Shelf(cursor, SMALL)
    producer = driver.connect()
    sent = bodies(2 * LIMIT // COST if cursor is not Cursor.VM else 8)
    for at, each in enumerate(sent):
        driver.send(producer, each, persistent=at % 4 != 2)
    driver.settle()
    kept = [each for at, each in enumerate(sent) if at % 4 != 2]
    getattr(driver, how)()
    driver.settle()
    usage = account(driver, "queue://q")
    assert len(driver.queue) == usage.messages == len(kept)
    assert usage.usage.store.used > len(kept) * LENGTH, "what lies there is charged"
    assert driver.drain() == kept
    consumer = driver.connect()
    again = driver.subscribe(consumer, headers=WIDE)
    assert [frame.body.decode() for frame in again] == kept
    assert {frame.headers.get("redelivered") for frame in again} == {"true"}
    driver.wait()
    driver.nothing_is_used()


def test_a_durable_subscription_survives_with_what_waits_for_it() -> None:
    driver = Shelf(Cursor.STORE, SMALL)
    head = "SUBSCRIBE\nid:0\ndestination:/topic/t\nack:client\nactivemq.subscriptionName:s\n\n\0"
    subscriber = driver.connect("client-id:c\n")
    driver.say(subscriber, head + "UNSUBSCRIBE\nid:0\n\n\0")
    producer = driver.connect()
    for body, kept in (("a", "true"), ("lost", "false"), ("b", "true")):
        driver.say(
            producer, f"SEND\ndestination:/topic/t\npersistent:{kept}\nreceipt:{body}\n\n{body}\0"
        )
    driver.settle()
    driver.kill()
    subscriber = driver.connect("client-id:c\n")
    driver.say(subscriber, head).settle()
    assert [frame.body for frame in driver.take(subscriber)] == [b"a", b"b"]
    found = driver.broker._shared.router.addresses.get("topic://t")
    assert found is not None
    assert [queue.routing for queue in found.queues] == [RoutingType.MULTICAST]


def test_a_disk_that_takes_nothing_is_told() -> None:
    driver = Shelf(Cursor.STORE, SMALL)
    producer = driver.connect()
    driver.disk.faults = DiskFaults(failing_writes=1.0)
    driver.send(producer, "m").settle()
    other = driver.connect()
    driver.send(other, "n")
    (answer,) = driver.take(other)
    assert (answer.command, answer["receipt-id"]) == ("ERROR", "n")
    assert "the disk stores nothing now" in answer.body.decode()
    driver.disk.faults = DiskFaults()
    driver.wait(seconds(3))
    driver.send(other, "o").settle()
    assert driver.receipts(other) == ["o"]
