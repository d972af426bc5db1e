"""The profile of ActiveMQ: producers at full memory and full stores, over STOMP."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokerproof.harness.model.broker_io import ResumeReading, StopReading
from brokerproof.harness.model.time import ms
from brokerproof.reference_broker.settings.activemq import Cursor
from brokerproof.suites.units.drivers.activemq import (
    COST,
    SPOOLED,
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
T = 3000


def full(conns: int = 2, **about: object) -> Driver:
    """Q has room for 3 messages, which connection 1 has sent; receipts 0, 1, 2."""
    driver = broker(configured(LIMITED, **about), conns)
    assert receipts(driver.feed(1, "".join(map(sync, range(ROOM))))) == [0, 1, 2]
    return driver


def take(driver: Driver, conn: int = 2) -> list[str]:
    """Bodies of what a consumer gets that acknowledges as it goes."""
    return bodies(driver.feed(conn, subscribe(ack="auto")), conn)


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "taken"),
    [(3 * COST, 3), (3 * COST - 1, 3), (3 * COST + 1, 4), (300 * COST // 100 + 20, 4), (1, 1)],
)
def test_messages_are_taken_while_less_than_the_limit_is_used(limit: int, taken: int) -> None:
    driver = broker(configured(policy("queue://Q", memory_limit=limit, cursor=VM)))
    assert receipts(driver.feed(1, "".join(map(sync, range(taken + 2))))) == list(range(taken))


def test_percentages_are_rounded_down() -> None:
    driver = broker(configured(policy("queue://Q", memory_limit=100 * COST - 99, cursor=VM)))
    assert receipts(driver.feed(1, "".join(map(sync, range(105))))) == list(range(100))
    driver = broker(configured(policy("queue://Q", memory_limit=0, cursor=VM), memory=0))
    assert len(receipts(driver.feed(1, "".join(map(sync, range(105)))))) == 105, (
        "a limit of 0 is none"
    )


def test_who_waits_for_a_receipt_goes_on_meanwhile() -> None:
    driver = full()
    assert frames(driver.feed(1, sync(3)), 1) == []
    assert receipts(driver.feed(1, sync(4, "/queue/elsewhere"))) == [4]
    came = driver.feed(1, subscribe(headers="activemq.prefetchSize:1\n"))
    assert bodies(came, 1) == ["m"]
    (first,) = messages(came)
    after = driver.feed(1, ack(first))
    assert receipts(after) == [3]
    assert reading(after) == []


def test_those_who_wait_go_on_in_order_and_as_far_as_there_is_room() -> None:
    driver = full(3)
    for number in range(3, 8):
        driver.feed(1, sync(number, body=str(number)))
    driver.feed(3, sync(8, body="8"))
    (first, second) = messages(driver.feed(2, subscribe(headers="activemq.prefetchSize:2\n")), 2)
    assert receipts(driver.feed(2, ack(first))) == [3]
    assert receipts(driver.feed(2, ack(second))) == [4]
    driver.feed(2, "UNSUBSCRIBE\nid:0\n\n\0")
    effects = driver.feed(2, subscribe(ack="auto", id="1"))
    assert (receipts(effects), receipts(effects, 3)) == ([5, 6, 7], [8])
    assert bodies(effects, 2) == ["m", "3", "4", "5", "6", "7", "8"]


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


def test_a_stalled_connection_stalls_again() -> None:
    driver = full()
    driver.feed(1, send("a") + send("b") + sync(9, "/queue/elsewhere"))
    (first, second) = messages(driver.feed(2, subscribe(headers="activemq.prefetchSize:2\n")), 2)
    effects = driver.feed(2, ack(first))
    assert (receipts(effects), used(driver)[0]) == ([], 3)
    assert receipts(driver.feed(2, ack(second))) == [9]


def test_parents_are_full_for_all() -> None:
    driver = broker(configured(policy("queue://>", cursor=VM), memory=2 * COST), 2)
    assert receipts(
        driver.feed(1, sync(0) + sync(1, "/queue/other") + sync(2, "/queue/third"))
    ) == [0, 1]
    assert receipts(driver.feed(2, subscribe("/queue/other", "auto"))) == [2]


def test_flow_control_can_be_switched_off() -> None:
    driver = broker(configured(replace(LIMITED, producer_flow_control=False)))
    assert len(receipts(driver.feed(1, "".join(map(sync, range(20)))))) == 20
    assert account(driver).memory.percent >= 600


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


def test_a_message_in_a_transaction_is_charged_until_it_ends() -> None:
    driver = broker(configured(LIMITED), 2)
    driver.feed(
        1,
        "BEGIN\ntransaction:t\n\n\0"
        + "".join(sync(number, headers="transaction:t\n") for number in range(3)),
    )
    assert used(driver)[0] == 3
    assert receipts(driver.feed(2, sync(7)), 2) == []
    effects = driver.feed(1, "ABORT\ntransaction:t\n\n\0")
    assert (receipts(effects, 2), used(driver)[0]) == ([7], 1)


# --- topics ---------------------------------------------------------------------------------------


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


def test_what_is_parked_at_a_topic_has_no_time_limit() -> None:
    driver = broker(
        configured(TOPIC, policy("queue://Q", memory_limit=1, cursor=VM), send_fail_after_ms=T), 2
    )
    driver.feed(2, subscribe("/topic/T", headers="activemq.prefetchSize:1\n"))
    driver.feed(1, "".join(sync(number, "/topic/T") for number in range(4)) + sync(10) + sync(11))
    assert [errors([each]) for _, each in driver.run(until=ms(10 * T)) if errors([each])] == [
        ["11"]
    ]


# --- no space -------------------------------------------------------------------------------------


def test_a_send_fails_at_once_and_the_connection_goes_on() -> None:
    driver = full(send_fail_if_no_space=True)
    assert errors(driver.feed(1, sync(3))) == ["3"]
    effects = driver.feed(1, send() + sync(4, "/queue/elsewhere"))
    assert (errors(effects), receipts(effects), reading(effects)) == ([None], [4], [])
    assert driver.closed == []
    assert take(driver) == ["m"] * 3


def test_a_send_fails_when_its_time_is_up_and_not_before() -> None:
    driver = full(send_fail_after_ms=T)
    driver.feed(1, sync(3))
    driver.now = ms(1000)
    driver.feed(1, sync(4))
    assert driver.broker.next_deadline() == ms(T)
    assert driver.at(ms(T) - 1) == []
    assert errors(driver.at(ms(T))) == ["3"]
    assert errors(driver.at(ms(T + 1000) - 1)) == []
    assert errors(driver.at(ms(T + 1000))) == ["4"]
    assert take(driver) == ["m"] * 3


def test_room_in_time_saves_a_send() -> None:
    driver = full(send_fail_after_ms=T)
    driver.feed(1, sync(3))
    driver.now = ms(T) - 1
    assert receipts(driver.feed(2, subscribe(ack="auto"))) == [3]
    assert driver.run(until=ms(2 * T)) == []


def test_a_stalled_connection_goes_on_after_the_time() -> None:
    driver = full(send_fail_after_ms=T)
    driver.feed(1, send("a") + send("b") + sync(9, "/queue/elsewhere"))
    effects = driver.at(ms(T))
    assert (errors(effects), receipts(effects)) == ([None], []), "the next stalls it as long again"
    effects = driver.at(ms(2 * T))
    assert (errors(effects), receipts(effects), reading(effects)) == ([None], [9], [ResumeReading])


@pytest.mark.parametrize(("cursor", "fails"), [(VM, False), (Cursor.STORE, True)])
def test_the_policy_of_a_queue_says_whether_sends_fail_unless_it_keeps_all_in_memory(
    cursor: Cursor, fails: bool
) -> None:
    entry = policy("queue://Q", memory_limit=1, cursor=cursor, send_fail_if_no_space=True)
    driver = broker(configured(entry, persistent=False))
    if cursor is not VM:
        driver = broker(configured(replace(entry, memory_limit=0), temp=COST, store=COST))
        effects = driver.feed(1, sync(0, headers=PERSISTENT) + sync(1, headers=PERSISTENT))
    else:
        effects = driver.feed(1, sync(0) + sync(1))
    assert (receipts(effects), errors(effects)) == ([0], ["1"] if fails else [])


# --- stores ---------------------------------------------------------------------------------------


def test_a_full_store_holds_back_what_is_persistent() -> None:
    driver = broker(configured(store=2 * COST), 2)
    assert receipts(
        driver.feed(1, "".join(sync(number, headers=PERSISTENT) for number in range(3)))
    ) == [0, 1]
    assert receipts(driver.feed(1, sync(9))) == [9], "what is not persistent is taken"
    assert used(driver)[1] == 2
    assert receipts(driver.feed(2, subscribe(ack="auto"))) == [2]
    assert used(driver)[1] == 0


@pytest.mark.parametrize("switched_off", [False, True])
def test_a_full_temporary_store_holds_back_what_is_not(switched_off: bool) -> None:
    entry = policy(
        "queue://Q",
        memory_limit=2 * COST,
        cursor=Cursor.FILE,
        producer_flow_control=not switched_off,
    )
    driver = broker(configured(entry, temp=4 * SPOOLED), 2)
    assert receipts(driver.feed(1, "".join(map(sync, range(6))))) == [0, 1, 2, 3]
    assert used(driver) == (0, 0, 4)
    assert receipts(driver.feed(1, sync(9, headers=PERSISTENT))) == [9]
    assert receipts(driver.feed(2, subscribe(ack="auto"))) == [4, 5]
    assert used(driver) == (0, 0, 0)


def test_the_store_is_full_at_its_own_mark() -> None:
    driver = broker(configured(policy("queue://Q", store_usage_high_water_mark=50), store=4 * COST))
    assert receipts(
        driver.feed(1, "".join(sync(number, headers=PERSISTENT) for number in range(4)))
    ) == [0, 1]


def test_a_release_stalls_at_the_store_whoever_waits() -> None:
    driver = broker(configured(store=COST), 2, stalls_at_the_store=True)
    effects = driver.feed(1, sync(0, headers=PERSISTENT) + sync(1, headers=PERSISTENT) + sync(2))
    assert (receipts(effects), reading(effects)) == ([0], [StopReading])
    effects = driver.feed(2, subscribe(ack="auto"))
    assert (receipts(effects), reading(effects)) == ([1, 2], [ResumeReading])


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

    assert (limit(memory=600), limit(memory=2000), limit(memory=600, memory_percent=20)) == (
        600,
        700,
        200,
    )


def test_a_broker_without_a_store_has_no_limits_there() -> None:
    driver = broker(configured(persistent=False, store=1, temp=1))
    assert (
        len(
            receipts(
                driver.feed(1, "".join(sync(number, headers=PERSISTENT) for number in range(5)))
            )
        )
        == 5
    )
    assert used(driver) == (5, 0, 0)
