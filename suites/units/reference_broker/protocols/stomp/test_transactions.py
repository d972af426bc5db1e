"""Transactions: sends and settlements take effect together or not at all."""

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
