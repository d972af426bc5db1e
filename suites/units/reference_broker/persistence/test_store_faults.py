"""A disk that fails: producers get an error, no confirmed message is lost, and the broker continues
as soon as it can."""

import pytest

from brokerproof.harness.model.time import NS_PER_MS, seconds
from brokerproof.reference_broker.persistence.memory import DiskFaults
from brokerproof.reference_broker.persistence.store import State
from brokerproof.suites.units.drivers.persistence import StoringDriver, paging

BODY = "x" * 300
EXTENT = 5000
"""The most bytes of the journal's extent."""
GOOD = DiskFaults(write=NS_PER_MS, read=NS_PER_MS)


def _bodies(count: int, start: int = 0) -> list[str]:
    return [f"{number:05d}{BODY}" for number in range(start, start + count)]


def _driver(limit: int, seed: int = 0) -> StoringDriver:
    driver = StoringDriver(paging(limit, max_read_page_bytes=-1), seed=seed)
    driver.settle()
    return driver


def _errors(driver: StoringDriver, conn: int) -> list[str]:
    return [frame["message"] for frame in driver.take(conn) if frame.command == "ERROR"]


@pytest.mark.parametrize("limit", [-1, 2000])
@pytest.mark.parametrize(
    "faults",
    [DiskFaults(failing_writes=1.0), DiskFaults(failing_syncs=1.0)],
    ids=["writes", "syncs"],
)
def test_a_disk_that_fails_for_a_while(limit: int, faults: DiskFaults) -> None:
    driver = _driver(limit)
    producer = driver.connect()
    driver.send(producer, *_bodies(20)).settle()
    assert driver.receipts(producer) == _bodies(20)
    driver.disk.faults = faults
    driver.send(producer, "lost?").settle()
    assert _errors(driver, producer) == ["cannot be stored"]
    assert driver.closed == [producer]
    another = driver.connect()
    driver.send(another, "not taken")
    driver.wait(seconds(3))
    assert driver.closed == [producer, another], "told at once"
    driver.disk.faults = GOOD
    driver.wait(seconds(3))
    assert any("delayed writes" in report for report in driver.reports)
    third = driver.connect()
    driver.send(third, "after").settle()
    assert driver.receipts(third) == ["after"]
    driver.power_loss()
    assert driver.drain() in ([*_bodies(20), "lost?", "after"], [*_bodies(20), "after"])


@pytest.mark.parametrize("limit", [-1, 2000])
def test_a_disk_that_is_full_for_a_while(limit: int) -> None:
    driver = _driver(limit)
    driver.disk.faults = DiskFaults(
        write=NS_PER_MS, read=NS_PER_MS, space=driver.disk.used + 12_000 + EXTENT
    )
    producer = driver.connect()
    receipted: list[str] = []
    bodies = iter(_bodies(1000))
    while producer not in driver.closed:
        driver.send(producer, next(bodies)).settle()
        receipted += driver.receipts(producer)
    store = driver.broker._store
    assert store is not None
    assert store.state is State.LOW, "the ballast was used for what had been taken"
    assert len(receipted) > 20
    assert any("No space left" in report for report in driver.reports)
    driver.power_loss()
    driver.settle()
    consumer = driver.connect()
    got = driver.subscribe(consumer, "client-individual", headers="consumer-window-size:-1\n")
    assert [frame.body.decode() for frame in got] == receipted, "nothing that had a receipt is lost"
    driver.say(consumer, "".join(f"ACK\nid:{frame['ack']}\nreceipt:a\n\n\0" for frame in got[:-1]))
    driver.wait(seconds(3))
    assert len(driver.receipts(consumer)) == len(got) - 1, (
        "what consumers are done with is taken although nothing else is"
    )
    assert driver.disk.used < driver.disk.faults.space  # type: ignore[operator]
    again = driver.connect()
    driver.send(again, "after")
    driver.wait(seconds(3))
    assert driver.receipts(again) == ["after"], "space came back by what was consumed"
    driver.kill()
    assert driver.drain() == [receipted[-1], "after"]


def test_pages_without_a_journal_on_a_full_disk() -> None:
    driver = StoringDriver(paging(2000, max_read_page_bytes=-1), options=None)
    driver.disk.faults = DiskFaults(write=NS_PER_MS, read=NS_PER_MS, space=20_000)
    producer = driver.connect()
    sent = 0
    while producer not in driver.closed:
        driver.send(producer, *_bodies(1, sent), persistent=False).settle()
        sent += 1
    elsewhere = driver.connect()
    driver.send(elsewhere, "a", to="elsewhere", persistent=False)
    assert driver.receipts(elsewhere) == ["a"], "another address has nothing to do with it"
    consumer = driver.connect()
    assert [frame.body.decode() for frame in driver.subscribe(consumer)] == _bodies(sent - 1), (
        "memory has the rest"
    )
    driver.wait(seconds(3))
    again = driver.connect()
    driver.send(again, *_bodies(10, sent), persistent=False).settle()
    assert driver.receipts(again) == _bodies(10, sent)


def test_a_page_that_cannot_be_read_for_a_while_is_read_later() -> None:
    driver = StoringDriver(
        paging(2000, page_max_cache_size=1, max_read_page_bytes=-1), options=None
    )
    producer = driver.connect()
    driver.send(producer, *_bodies(60), persistent=False).settle()
    driver.disk.faults = DiskFaults(failing_reads=1.0)
    consumer = driver.connect()
    got = driver.subscribe(consumer)
    assert 0 < len(got) < 60
    driver.disk.faults = GOOD
    driver.wait(seconds(2))
    got += [frame for frame in driver.take(consumer) if frame.command == "MESSAGE"]
    assert [frame.body.decode() for frame in got] == _bodies(60)


def test_who_only_acknowledged_is_told_too() -> None:
    driver = _driver(-1)
    producer, consumer = driver.connect(), driver.connect()
    driver.send(producer, "a").settle()
    (frame,) = driver.subscribe(consumer, "client-individual")
    driver.disk.faults = DiskFaults(failing_writes=1.0)
    driver.say(consumer, f"ACK\nid:{frame['ack']}\nreceipt:r\n\n\0").settle()
    assert _errors(driver, consumer) == ["cannot be stored"]
    driver.disk.faults = GOOD
    driver.wait(seconds(2))
    driver.power_loss()
    assert driver.drain() in ([], ["a"])
