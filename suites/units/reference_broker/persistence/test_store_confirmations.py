"""No confirmation is sent before its batch is stored, and no delivery before the batch of its
message, wherever the frame waits in the broker and whichever input sends it."""

import pytest

from brokerproof.harness.model.broker_io import FilesStored, WritePaused, WriteResumed
from brokerproof.harness.model.time import seconds
from brokerproof.reference_broker.persistence.memory import DiskFaults
from brokerproof.reference_broker.persistence.store import StoreOptions
from brokerproof.suites.units.drivers.persistence import StoringDriver, paging

LARGE = 900_000
INDIVIDUAL = "client-individual"


def driver_with(limit: int = -1) -> StoringDriver:
    return StoringDriver(paging(limit), StoreOptions(journaled=True, ballast=0))


def streaming(driver: StoringDriver, consumer: int) -> None:
    """Let ``consumer`` subscribe until the first pieces of a large body are being read for it."""
    driver.subscribe(consumer, INDIVIDUAL, headers=StoringDriver.wide)
    producer = driver.connect()
    driver.say(producer, f"SEND\ndestination:q\npersistent:true\n\n{'y' * LARGE}\0")
    while not driver.loads:
        driver.step()
    driver.take(consumer)


def commands(driver: StoringDriver, conn: int) -> list[str]:
    return [frame.command for frame in driver.take(conn)]


def is_writing(driver: StoringDriver) -> bool:
    return any(isinstance(answer, FilesStored) for _, _, answer in driver._answers)


def test_the_receipt_of_an_ack_waits_for_its_batch_behind_a_large_body() -> None:
    driver = driver_with()
    consumer, producer = driver.connect(), driver.connect()
    driver.subscribe(consumer, INDIVIDUAL, headers=StoringDriver.wide)
    driver.send(producer, "small").settle()
    (message,) = driver.take(consumer)
    driver.say(producer, f"SEND\ndestination:q\npersistent:true\n\n{'y' * LARGE}\0")
    while not driver.loads:
        driver.step()
    driver.say(consumer, f"ACK\nid:{message['ack']}\nreceipt:acked\n\n\0")
    driver.read_ahead()
    assert is_writing(driver)
    assert "RECEIPT" not in commands(driver, consumer)
    driver.settle()
    assert commands(driver, consumer)[-1] == "RECEIPT"


@pytest.mark.parametrize("paused", [False, True])
def test_the_receipt_of_a_send_waits_for_its_batch_behind_a_large_body(paused: bool) -> None:
    driver = driver_with()
    peer = driver.connect()
    streaming(driver, peer)
    if paused:
        driver.feed(WritePaused(peer))
    driver.send(peer, "kept", to="other")
    if paused:
        driver.feed(WriteResumed(peer))
    driver.read_ahead()
    assert is_writing(driver)
    assert driver.receipts(peer) == []
    driver.settle()
    assert driver.receipts(peer) == ["kept"]


def test_the_receipt_of_a_disconnect_waits_for_what_was_sent_before() -> None:
    driver = driver_with()
    peer = driver.connect()
    driver.say(peer, "SEND\ndestination:q\npersistent:true\n\nkept\0")
    driver.say(peer, "DISCONNECT\nreceipt:bye\n\n\0")
    assert is_writing(driver)
    assert driver.receipts(peer) == []
    driver.settle()
    assert driver.receipts(peer) == ["bye"]


@pytest.mark.parametrize("limit", [-1, 0])
def test_a_transaction_is_delivered_when_its_commit_is_stored(limit: int) -> None:
    """The consumer has room again after an ACK of a message that is not durable."""
    driver = driver_with(limit)
    consumer, producer = driver.connect(), driver.connect()
    driver.send(producer, "passing", persistent=False)
    (message,) = driver.subscribe(consumer, INDIVIDUAL, headers="consumer-window-size:0\n")
    part = "SEND\ndestination:q\ntransaction:t\n"
    driver.say(
        producer,
        f"BEGIN\ntransaction:t\n\n\0{part}\nfleeting\0{part}persistent:true\n\nkept\0"
        "COMMIT\ntransaction:t\n\n\0",
    )
    driver.say(consumer, f"ACK\nid:{message['ack']}\n\n\0")
    driver.read_ahead()
    assert is_writing(driver)
    assert commands(driver, consumer) == []
    driver.settle()
    assert [frame.body for frame in driver.take(consumer)] == [b"fleeting"]


def test_a_delivery_waits_for_the_record_that_its_queue_was_consumed() -> None:
    """After a restart that record marks messages that may have been delivered before."""
    driver = driver_with()
    producer, first, second = driver.connect(), driver.connect(), driver.connect()
    driver.send(producer, "a", "b").settle()
    window = "consumer-window-size:0\n"
    head = f"SUBSCRIBE\nid:0\ndestination:q\nack:{INDIVIDUAL}\n{window}\n\0"
    driver.say(first, head)
    driver.say(second, head)
    assert is_writing(driver)
    assert driver.take(second) == []
    driver.settle()
    assert [frame.body for frame in driver.take(second)] == [b"b"]


def test_a_receipt_behind_a_large_body_whose_batch_cannot_be_written_never_leaves() -> None:
    driver = driver_with()
    peer = driver.connect()
    streaming(driver, peer)
    driver.disk.faults = DiskFaults(failing_writes=1.0)
    driver.send(peer, "lost", to="other")
    driver.read_ahead()
    driver.settle()
    assert driver.receipts(peer) == []
    driver.disk.faults = DiskFaults()
    driver.wait(seconds(3))
    assert driver.receipts(peer) == []
    assert peer in driver.closed


def test_what_was_gathered_during_a_failed_write_is_delivered_when_it_is_written() -> None:
    driver = driver_with()
    driver.drain()  # the record that the queue was consumed is stored
    early, late = driver.connect(), driver.connect()
    driver.disk.faults = DiskFaults(failing_writes=1.0)
    driver.send(early, "early")
    driver.send(late, "late")
    driver.disk.faults = DiskFaults()
    driver.settle()
    driver.wait(seconds(3))
    assert driver.drain() == ["early", "late"]


def test_the_number_of_a_large_body_is_not_used_again_while_a_record_speaks_of_it() -> None:
    driver = driver_with()
    peer = driver.connect()
    driver.send(peer, "stays", to="other")  # and with it the segment
    driver.subscribe(peer, INDIVIDUAL, headers=StoringDriver.wide)
    driver.say(peer, f"SEND\ndestination:q\npersistent:true\n\n{'x' * LARGE}\0").settle()
    (message,) = driver.take(peer)
    driver.say(peer, f"ACK\nid:{message['ack']}\n\n\0").settle()
    driver.kill()
    peer = driver.connect()
    driver.say(peer, f"SEND\ndestination:q\npersistent:true\n\n{'y' * (LARGE - 8)}\0").settle()
    driver.kill()
    assert driver.drain() == ["y" * (LARGE - 8)]
