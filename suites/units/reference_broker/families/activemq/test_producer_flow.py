"""The ActiveMQ profile: producers at full memory and full stores, over STOMP."""

import pytest

from brokerproof.harness.model.broker_io import ResumeReading, StopReading
from brokerproof.reference_broker.settings.activemq import Cursor
from brokerproof.suites.units.drivers.activemq import (
    COST,
    account,
    ack,
    broker,
    configured,
    errors,
    messages,
    policy,
    reading,
    receipts,
    send,
    subscribe,
    sync,
    used,
)
from brokerproof.suites.units.drivers.broker import Driver, bodies, frames

ROOM = 3
VM = Cursor.VM
PERSISTENT = "persistent:true\n"
LIMITED = policy("queue://Q", memory_limit=ROOM * COST, cursor=VM)


def full(conns: int = 2, **about: object) -> Driver:
    """Q has room for 3 messages. Connection 1 has sent them, with receipts 0, 1, 2."""
    driver = broker(configured(LIMITED, **about), conns)
    assert receipts(driver.feed(1, "".join(map(sync, range(ROOM))))) == [0, 1, 2]
    return driver


def take(driver: Driver, conn: int = 2) -> list[str]:
    return bodies(driver.feed(conn, subscribe(ack="auto")), conn)


def test_percentages_are_rounded_down() -> None:
    driver = broker(configured(policy("queue://Q", memory_limit=100 * COST - 99, cursor=VM)))
    assert receipts(driver.feed(1, "".join(map(sync, range(105))))) == list(range(100))
    driver = broker(configured(policy("queue://Q", memory_limit=0, cursor=VM), memory=0))
    assert len(receipts(driver.feed(1, "".join(map(sync, range(105)))))) == 105, (
        "a limit of 0 is none"
    )


def test_who_asks_for_nothing_stalls_its_connection() -> None:
    driver = full()
    effects = driver.feed(
        1, send("late") + sync(9, "/queue/elsewhere") + subscribe("/queue/elsewhere")
    )
    assert frames(effects, 1) == []
    assert reading(effects) == [StopReading]
    assert frames(driver.feed(1, sync(10, "/queue/elsewhere")), 1) == [], (
        "what was on its way already"
    )
    assert receipts(driver.feed(2, sync(0, "/queue/elsewhere")), 2) == [0], "another connection"
    effects = driver.feed(2, subscribe(ack="auto"))
    assert bodies(effects, 2) == ["m", "m", "m", "late"]
    assert [frame.command for frame in frames(effects, 1)] == [
        "RECEIPT",
        "MESSAGE",
        "MESSAGE",
        "MESSAGE",
        "RECEIPT",
    ] or (receipts(effects) == [9, 10])
    assert reading(effects) == [ResumeReading]


def test_what_was_parked_survives_its_connection_and_what_stalled_it_does_not() -> None:
    driver = full()
    driver.feed(1, sync(3, body="parked") + send("stalled"))
    driver.gone(1)
    assert take(driver) == ["m", "m", "m", "parked"]


@pytest.mark.parametrize("end", ["COMMIT", "ABORT"])
def test_a_transaction_that_ended_takes_nothing_more(end: str) -> None:
    driver = full()
    driver.feed(
        1,
        "BEGIN\ntransaction:t\n\n\0"
        + sync(3, headers="transaction:t\n")
        + f"{end}\ntransaction:t\n\n\0",
    )
    effects = driver.feed(2, subscribe(ack="auto"))
    assert (bodies(effects, 2), errors(effects)) == (["m"] * 3, ["3"])


TOPIC = policy("topic://T", memory_limit=2 * COST)


def test_a_topic_is_charged_for_what_waits_for_its_subscribers() -> None:
    driver = broker(configured(TOPIC), 3)
    assert (
        len(receipts(driver.feed(1, "".join(sync(number, "/topic/T") for number in range(9))))) == 9
    ), "no subscriber"
    driver.feed(2, subscribe("/topic/T", headers="activemq.prefetchSize:1\n"))
    driver.feed(3, subscribe("/topic/T", ack="auto"))
    effects = driver.feed(1, "".join(sync(number, "/topic/T") for number in range(4)))
    assert receipts(effects) == [0, 1, 2], "one is sent, two wait"
    assert used(driver, "topic://T")[0] == 2
    (first,) = messages(effects, 2)
    after = driver.feed(2, ack(first))
    assert (receipts(after), len(messages(after, 2)), len(messages(after, 3))) == ([3], 1, 1)
    driver.gone(2)
    assert used(driver, "topic://T")[0] == 0


def test_no_limit_is_above_what_the_disk_holds() -> None:
    driver = broker(
        configured(policy("queue://Q", producer_flow_control=False)), disk_space=3 * COST
    )
    assert receipts(
        driver.feed(1, "".join(sync(number, headers=PERSISTENT) for number in range(5)))
    ) == [0, 1, 2]
    usage = account(
        broker(configured(store_percent=50, temp_percent=10, temp_total=1000), disk_space=4000)
    ).usage
    assert (usage.store.limit, usage.temp.limit) == (2000, 100)


def test_memory_is_a_part_of_the_heap() -> None:
    def limit(**about: int) -> int:
        return account(broker(configured(**about), heap=1000)).memory.limit

    assert limit(memory=600) == 600
    assert limit(memory=2000) == 700
    assert limit(memory=600, memory_percent=20) == 200
