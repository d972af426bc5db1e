"""Survival of a restart: durable messages, acknowledgements, subscriptions and transactions."""

import pytest

from brokerproof.harness.model.broker_io import FilesStored
from brokerproof.harness.model.time import NS_PER_MS
from brokerproof.reference_broker.persistence.memory import DiskFaults
from brokerproof.suites.units.drivers.persistence import SMALL, StoringDriver, numbered, paging

BODY = "x" * 300


def _bodies(count: int, start: int = 0) -> list[str]:
    return [f"{number:05d}{BODY}" for number in range(start, start + count)]


def _journals(driver: StoringDriver) -> list[str]:
    return [name for name in driver.disk.names() if name.endswith(".journal")]


def test_a_receipt_waits_for_its_fsync_and_one_fsync_is_for_all() -> None:
    driver = StoringDriver()
    driver.send(driver.connect(), "first").settle()
    conns = [driver.connect() for _ in range(5)]
    driver.settle()
    syncs, stores = driver.disk.syncs, len(driver.stores)
    for conn in conns:
        driver.send(conn, f"m{conn}")
    assert [driver.receipts(conn) for conn in conns] == [[]] * 5, "nothing is synced yet"
    driver.settle()
    assert [driver.receipts(conn) for conn in conns] == [[f"m{conn}"] for conn in conns]
    assert len(driver.stores) - stores == 2, "the first, and all that came while it was written"
    assert driver.disk.syncs - syncs == 2


def test_what_is_not_durable_is_receipted_at_once_and_gone_after_a_restart() -> None:
    driver = StoringDriver(paging())
    driver.settle()
    producer = driver.connect()
    driver.send(producer, "a", persistent=False).settle()
    driver.send(producer, *_bodies(30), persistent=False)
    assert driver.receipts(producer) == ["a", *_bodies(30)]
    driver.send(producer, "kept").settle()
    driver.kill()
    assert driver.drain() == ["kept"]


def test_what_may_have_been_delivered_is_marked_and_what_was_not_is_not() -> None:
    driver = StoringDriver()
    producer = driver.connect()
    driver.send(producer, "a", "b")
    driver.send(producer, "c", to="other").settle()
    driver.subscribe(driver.connect(), "client")
    driver.kill()
    conn = driver.connect()
    assert [frame["redelivered"] for frame in driver.subscribe(conn, "client")] == ["true", "true"]
    assert "redelivered" not in driver.subscribe(conn, "client", "other")[0].headers


def test_an_end_in_order_knows_what_was_never_delivered() -> None:
    driver = StoringDriver()
    producer, consumer = driver.connect(), driver.connect()
    driver.subscribe(consumer, "client")
    driver.say(consumer, "UNSUBSCRIBE\nid:q\n\n\0")
    driver.send(producer, "a").settle()
    driver.restart()
    assert "redelivered" not in driver.subscribe(driver.connect(), "client")[0].headers


def test_failures_are_counted_across_restarts() -> None:
    driver = StoringDriver(paging(-1, max_delivery_attempts=3, dead_letter_address="DLQ"))
    producer = driver.connect()
    driver.send(producer, "a").settle()
    for _ in range(3):
        consumer = driver.connect()
        (frame,) = driver.subscribe(consumer, "client", headers="consumer-window-size:0\n")
        driver.say(consumer, f"NACK\nid:{frame['ack']}\nreceipt:n\n\n\0").settle()
        driver.kill()
    assert driver.drain() == []
    assert driver.drain("DLQ") == ["a"]
    driver.kill()
    assert driver.drain("DLQ") == ["a"]


def test_a_durable_subscription_and_what_it_missed_are_there_again() -> None:
    driver = StoringDriver()
    kind = "subscription-type:MULTICAST\ndurable-subscriber-name:s\nselector:n<>'2'\n"
    conn = driver.connect("client-id:me\n")
    driver.subscribe(conn, to="t", headers=kind)
    driver.say(conn, "DISCONNECT\n\n\0")
    producer = driver.connect()
    for body in numbered(4):
        driver.send(producer, body, to="t", headers=f"destination-type:MULTICAST\nn:{body}\n")
    driver.settle()
    driver.power_loss()
    again = driver.connect("client-id:me\n")
    expected = [b"0", b"1", b"3"]
    assert [frame.body for frame in driver.subscribe(again, to="t", headers=kind)] == expected
    driver.say(again, "UNSUBSCRIBE\nid:t\ndurable-subscriber-name:s\nreceipt:u\n\n\0").settle()
    driver.power_loss()
    assert not driver.broker._store.queues.recorded  # type: ignore[union-attr]


@pytest.mark.parametrize("limit", [-1, 600])
def test_a_transaction_is_there_as_a_whole_or_not_at_all(limit: int) -> None:
    """The file is cut at every byte of the transaction."""
    seen = set()
    for cut in range(0, 6000, 97):
        driver = StoringDriver(paging(limit, page_size=900, max_read_page_bytes=-1), seed=cut)
        producer = driver.connect()
        driver.send(producer, "a", "b", "c").settle()
        consumer = driver.connect()
        first, *_ = driver.subscribe(
            consumer, "client-individual", headers="consumer-window-size:-1\n"
        )
        driver.say(consumer, "BEGIN\ntransaction:t\n\n\0")
        driver.say(consumer, f"ACK\nid:{first['ack']}\ntransaction:t\n\n\0")
        for body in _bodies(8):
            driver.say(consumer, f"SEND\ndestination:q\npersistent:true\ntransaction:t\n\n{body}\0")
        driver.settle()
        driver.disk.faults = DiskFaults(space=driver.disk.used + cut)
        driver.disk.faults.write = 10**12  # the answer never arrives: the process ends before
        driver.say(consumer, "COMMIT\ntransaction:t\nreceipt:c\n\n\0")
        assert driver.receipts(consumer) == []
        driver.disk.faults = DiskFaults(write=NS_PER_MS)
        driver.kill()
        seen.add(tuple(driver.drain()))
        driver.kill()
        assert tuple(driver.drain()) in seen
    assert seen == {("a", "b", "c"), ("b", "c", *_bodies(8))}


def test_a_snapshot_larger_than_a_segment_does_not_keep_the_journal_writing() -> None:
    driver = StoringDriver()
    producer = driver.connect()
    long = "n" * 2 * SMALL.segment
    driver.send(producer, "first", to=long)
    for number in range(40):
        driver.send(producer, f"m{number}")
        for _ in range(100):
            if not driver.step():
                break
        else:
            pytest.fail("the journal is written again and again")
    assert len(_journals(driver)) < 10
    driver.kill()
    assert driver.drain(long) == ["first"]
    assert driver.drain() == [f"m{number}" for number in range(40)]


def test_old_segments_go_and_one_that_lasts_does_not_hold_them_back() -> None:
    driver = StoringDriver()
    producer = driver.connect()
    driver.send(producer, "oldest", to="keep")
    for start in range(0, 400, 10):
        driver.send(producer, *_bodies(10, start)).settle()
        conn = driver.connect()
        driver.subscribe(conn, "auto")
        driver.say(conn, "DISCONNECT\n\n\0").settle()
    sizes = sum(len(driver.disk.read(journal)) for journal in _journals(driver))
    assert sizes < 20 * SMALL.segment
    assert "000000000" not in _journals(driver)[0]
    driver.power_loss()
    assert driver.drain("keep") == ["oldest"]
    assert driver.drain() == []


@pytest.mark.parametrize("lost", [1, 7, 100, 320])
def test_a_torn_tail_is_cut_and_what_is_before_it_is_there(lost: int) -> None:
    driver = StoringDriver()
    producer = driver.connect()
    for body in _bodies(5):
        extent = bytes(driver.disk.read("journal/extent")) if body == _bodies(5)[4] else b""
        driver.send(producer, body).settle()
    name = _journals(driver)[-1]
    file = driver.disk._files[name]
    file.content = file.content[:-lost]
    driver.disk._files["journal/extent"].content[:] = extent  # the last batch was never confirmed
    driver.kill()
    assert driver.reports == []
    assert driver.drain() == _bodies(4)
    driver.send(driver.connect(), *_bodies(1, 4)).settle()
    driver.kill()
    assert driver.drain() == _bodies(5)


@pytest.mark.parametrize("limit", [-1, 600])
def test_a_damaged_record_in_the_middle_is_reported_and_not_delivered(limit: int) -> None:
    driver = StoringDriver(paging(limit, page_size=100_000, max_read_page_bytes=-1))
    producer = driver.connect()
    for body in _bodies(9):
        driver.send(producer, body).settle()
    (name,) = [
        name
        for name in driver.disk.names()
        if f"00004{BODY}".encode() in driver.disk.read(name)
        and f"00005{BODY}".encode() in driver.disk.read(name)
    ]
    driver.disk.spoil(name, driver.disk.read(name).index(f"00004{BODY}".encode()) + 20)
    driver.kill()
    assert driver.drain() == [*_bodies(4), *_bodies(4, 5)]
    assert any(name in report and "damaged" in report for report in driver.reports)


def test_a_page_that_is_damaged_while_the_broker_runs() -> None:
    driver = StoringDriver(paging(max_read_page_bytes=-1, page_max_cache_size=1), options=None)
    producer = driver.connect()
    driver.send(producer, *_bodies(80), persistent=False).settle()
    name = sorted(name for name in driver.disk.names() if name.endswith(".page"))[3]
    (store,) = [store for store in driver.broker._store.pages._stores.values() if store.active]  # type: ignore[union-attr]
    assert store.pages[4].content is None
    at = driver.disk.read(name).index(BODY.encode())
    lost = driver.disk.read(name)[at - 5 : at].decode() + BODY
    driver.disk.spoil(name, at + 5)
    consumer = driver.connect()
    got = [frame.body.decode() for frame in driver.subscribe(consumer)]
    assert got == [body for body in _bodies(80) if body != lost]
    assert any(name in report for report in driver.reports)
    assert not [name for name in driver.disk.names() if name.endswith(".page")]


def test_an_answer_that_nobody_waits_for_changes_nothing() -> None:
    driver = StoringDriver()
    driver.feed(FilesStored(9999, "who knows"))
    driver.send(driver.connect(), "a").settle()
    assert driver.drain() == ["a"]
