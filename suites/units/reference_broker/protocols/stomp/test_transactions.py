"""Transactions: sends and settlements together or not at all."""

import pytest

from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers.broker import Driver, only, send, subscribe

BEGIN, COMMIT, ABORT = (f"{verb}\ntransaction:t\n\n\0" for verb in ("BEGIN", "COMMIT", "ABORT"))
IN = "transaction:t\n"


def test_an_aborted_ack_is_a_failed_delivery() -> None:
    driver = Driver(Settings(address_settings=(AddressSetting("q", max_delivery_attempts=2),)))
    driver.connect(1)
    driver.feed(1, subscribe(ack="client"))
    got = only(driver.feed(1, send("a")), 1)
    got = only(driver.feed(1, BEGIN + f"ACK\nid:{got['ack']}\n{IN}\n\0" + ABORT), 1)
    assert driver.feed(1, BEGIN + f"ACK\nid:{got['ack']}\n{IN}\n\0" + ABORT) == []


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
