"""Durable subscriptions of the reference broker: their single consumer, address, selector and
deletion."""

import pytest

from brokerproof.suites.units.drivers.broker import Driver, bodies, only, send

NAME = "durable-subscription-name:s\n"


def client(driver: Driver, conn: int, version: str = "1.2", client_id: str = "c") -> None:
    driver.connect(conn, version, f"client-id:{client_id}\n")


def subscribe(id: str = "0", topic: str = "t", headers: str = NAME, ack: str = "auto") -> str:
    return f"SUBSCRIBE\nid:{id}\ndestination:{topic}\nack:{ack}\nsubscription-type:MULTICAST\n{headers}\n\0"  # noqa: E501


def error(driver: Driver, conn: int, data: str) -> str:
    return only(driver.feed(conn, data), conn).body.decode()


@pytest.fixture
def driver() -> Driver:
    """Return a broker with a producer, 9, and a disconnected client, 1, that has a durable
    subscription."""
    made = Driver().connected(9)
    client(made, 1)
    made.feed(1, subscribe() + "DISCONNECT\n\n\0")
    return made


def test_it_cannot_be_deleted_while_another_connection_consumes_it(driver: Driver) -> None:
    client(driver, 2)
    client(driver, 3)
    driver.feed(2, subscribe())
    assert "'c.s' has a consumer" in error(driver, 3, f"UNSUBSCRIBE\nid:0\n{NAME}\n\0")
    assert driver.observed == ["ARTEMIS-STOMP-durable-2"]


def test_deleting_what_is_not_there_is_confirmed(driver: Driver) -> None:
    client(driver, 2)
    assert (
        only(
            driver.feed(2, "UNSUBSCRIBE\nid:0\nactivemq.subscriptionName:x\nreceipt:r\n\n\0"), 2
        ).command
        == "RECEIPT"
    )


def test_on_a_queue_the_name_means_nothing(driver: Driver) -> None:
    client(driver, 2)
    client(driver, 3)
    for conn in (2, 3):
        driver.feed(conn, subscribe(topic="q").replace("MULTICAST", "ANYCAST"))
    sent = driver.feed(9, send("a") + send("b"))
    assert [bodies(sent, 2), bodies(sent, 3)] == [["a"], ["b"]]


def test_an_empty_name_is_refused(driver: Driver) -> None:
    client(driver, 2)
    assert "durable-subscriber-name is empty" in error(
        driver, 2, subscribe(headers="durable-subscriber-name:\n")
    )
