"""Transactions: sends and settlements together or not at all."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers.broker import Driver, bodies, frames, only, send, subscribe

BEGIN, COMMIT, ABORT = (f"{verb}\ntransaction:t\n\n\0" for verb in ("BEGIN", "COMMIT", "ABORT"))
IN = "transaction:t\n"


def pair(ack: str = "client", version: str = "1.2") -> Driver:
    """Connection 1 subscribes to q, connection 2 sends."""
    driver = Driver()
    driver.connect(1, version)
    driver.connect(2, version)
    driver.feed(1, subscribe(ack=ack))
    return driver


def test_sends_wait_for_the_commit_and_keep_their_order() -> None:
    driver = pair("auto")
    assert driver.feed(2, BEGIN + send("a", headers=IN) + send("b", headers=IN)) == []
    assert bodies(driver.feed(2, send("outside")), 1) == ["outside"]
    effects = driver.feed(2, COMMIT)
    assert bodies(effects, 1) == ["a", "b"]
    assert "transaction" not in frames(effects, 1)[0].headers


@pytest.mark.parametrize("end", [ABORT, "DISCONNECT\n\n\0", "", "NONSENSE\n\n\0"])
def test_sends_are_forgotten(end: str) -> None:
    driver = pair("auto")
    driver.feed(2, BEGIN + send("a", headers=IN))
    effects = driver.feed(2, end) if end else driver.gone(2)
    assert frames(effects, 1) == []
    driver.connect(3)
    assert bodies(driver.feed(3, send("after")), 1) == ["after"]


@pytest.mark.parametrize("verb", ["ACK", "NACK"])
@pytest.mark.parametrize("end", [ABORT, "gone", "DISCONNECT\n\n\0"])
def test_an_undone_settlement_brings_its_messages_back(verb: str, end: str) -> None:
    driver = pair()
    got = frames(driver.feed(2, send("a") + send("b") + send("c")), 1)
    driver.feed(1, BEGIN + f"{verb}\nid:{got[1]['ack']}\n{IN}\n\0")
    effects = driver.gone(1) if end == "gone" else driver.feed(1, end)
    if end == ABORT:
        assert bodies(effects, 1) == ["a", "b"]
        assert [frame["redelivered"] for frame in frames(effects, 1)] == ["true", "true"]
        driver.gone(1)
    assert bodies(driver.feed(2, subscribe("2")), 2) == ["a", "b", "c"]


def test_a_committed_ack_is_final() -> None:
    driver = pair()
    got = only(driver.feed(2, send("a")), 1)
    driver.feed(1, BEGIN + f"ACK\nid:{got['ack']}\n{IN}\n\0" + COMMIT)
    driver.gone(1)
    assert driver.feed(2, subscribe("2")) == []


def test_a_committed_nack_redelivers_at_the_commit() -> None:
    driver = pair()
    got = only(driver.feed(2, send("a")), 1)
    assert driver.feed(1, BEGIN + f"NACK\nid:{got['ack']}\n{IN}\n\0") == []
    assert bodies(driver.feed(1, COMMIT), 1) == ["a"]


def test_an_aborted_ack_is_a_failed_delivery() -> None:
    driver = Driver(Settings(address_settings=(AddressSetting("q", max_delivery_attempts=2),)))
    driver.connect(1)
    driver.feed(1, subscribe(ack="client"))
    got = only(driver.feed(1, send("a")), 1)
    got = only(driver.feed(1, BEGIN + f"ACK\nid:{got['ack']}\n{IN}\n\0" + ABORT), 1)
    assert driver.feed(1, BEGIN + f"ACK\nid:{got['ack']}\n{IN}\n\0" + ABORT) == []


def test_transactions_of_two_connections_have_nothing_to_do_with_each_other() -> None:
    driver = pair("auto")
    driver.feed(1, BEGIN + send("one", headers=IN))
    driver.feed(2, BEGIN + send("two", headers=IN))
    assert bodies(driver.feed(2, COMMIT), 1) == ["two"]
    assert bodies(driver.feed(1, COMMIT), 1) == ["one"]


def test_a_name_may_be_used_again_after_the_end() -> None:
    driver = pair("auto")
    assert bodies(driver.feed(2, (BEGIN + send("m", headers=IN) + COMMIT) * 2), 1) == ["m", "m"]


def test_acks_ignored_in_transactions_when_told_to() -> None:
    """ARTEMIS-STOMP-tx-1."""
    driver = Driver(Settings(stomp_transactional_acks_ignored=True))
    driver.connect(1)
    driver.feed(1, subscribe(ack="client", headers="consumer-window-size:0\n"))
    got = only(driver.feed(1, send("a") + send("b")), 1)
    assert driver.feed(1, BEGIN + f"ACK\nid:{got['ack']}\n{IN}\n\0" + COMMIT) == []
    assert bodies(driver.feed(1, f"ACK\nid:{got['ack']}\n\n\0"), 1) == ["b"]


def test_a_queue_waits_for_what_a_transaction_may_bring_back() -> None:
    """Made on demand, without consumer, empty: it must not go while a message may return to it."""
    driver = pair()
    got = only(driver.feed(2, send("a")), 1)
    driver.feed(1, BEGIN + f"ACK\nid:{got['ack']}\n{IN}\n\0" + "UNSUBSCRIBE\nid:0\n\n\0")
    assert driver.feed(1, ABORT) == []
    assert bodies(driver.feed(2, subscribe("2")), 2) == ["a"]


def test_a_transaction_outlives_the_subscription_it_settled_for() -> None:
    driver = pair()
    got = frames(driver.feed(2, send("a") + send("b")), 1)
    driver.feed(1, BEGIN + f"ACK\nid:{got[0]['ack']}\n{IN}\n\0" + "UNSUBSCRIBE\nid:0\n\n\0" + ABORT)
    assert bodies(driver.feed(2, subscribe("2")), 2) == ["a", "b"]


@pytest.mark.parametrize(
    ("version", "frame", "requirement"),
    [
        ("1.2", "BEGIN\n\n\0", "STOMP12-BEGIN-01"),
        ("1.2", BEGIN + BEGIN, "STOMP12-BEGIN-02"),
        ("1.2", COMMIT, "STOMP12-COMMIT-01"),
        ("1.2", "COMMIT\n\n\0", "STOMP12-COMMIT-01"),
        ("1.2", ABORT, "STOMP12-ABORT-01"),
        ("1.2", BEGIN + COMMIT + COMMIT, "STOMP12-COMMIT-01"),
        ("1.2", BEGIN + ABORT + ABORT, "STOMP12-ABORT-01"),
        ("1.2", send("m", headers=IN), "STOMP12-SEND-07"),
        ("1.2", f"ACK\nid:1\n{IN}\n\0", "STOMP12-ACK-03"),
        ("1.2", f"NACK\nid:1\n{IN}\n\0", "STOMP12-NACK-02"),
        ("1.1", "BEGIN\n\n\0", "STOMP11-BEGIN-01"),
        ("1.1", COMMIT, "STOMP11-COMMIT-01"),
        ("1.1", ABORT, "STOMP11-ABORT-01"),
        ("1.1", send("m", headers=IN), "STOMP11-SEND-07"),
        ("1.0", BEGIN + BEGIN, "STOMP10-BEGIN-01"),
        ("1.0", COMMIT, "STOMP10-COMMIT-01"),
        ("1.0", send("m", headers=IN), "STOMP10-SEND-03"),
    ],
)
def test_refusals(version: str, frame: str, requirement: str) -> None:
    driver = Driver()
    driver.connect(1, version)
    driver.feed(1, frame)
    assert (driver.observed, driver.closed) == ([requirement], [1])
