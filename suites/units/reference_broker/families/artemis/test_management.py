"""Queries to the management address of the reference broker, and its answers."""

import json

import pytest

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers.broker import Driver, only, send, subscribe


@pytest.fixture
def driver() -> Driver:
    """Connection 1 queries and gets answers, connection 2 sends; addresses under full. refuse at
    1000 bytes."""
    full = AddressSetting("full.#", max_size_bytes=1000, address_full_policy=FullPolicy.FAIL)
    made = Driver(Settings(address_settings=(full,))).connected(1)
    made.feed(1, subscribe("a", destination="answers"))
    made.connect(2)
    return made


def ask(
    driver: Driver, resource: str, attribute: str, more: str = "reply-to:answers\n"
) -> tuple[str, object]:
    """Return the broker's answer: success, and the value."""
    headers = f"_AMQ_ResourceName:{resource}\n_AMQ_Attribute:{attribute}\n{more}"
    answer = only(driver.feed(1, f"SEND\ndestination:activemq.management\n{headers}\n\0"), 1)
    (value,) = json.loads(answer.body)
    return answer["_AMQ_OperationSucceeded"], value


def test_an_address_tells_what_is_charged_to_it(driver: Driver) -> None:
    driver.feed(2, send("x" * 100, "q"))
    # 352 for a message, 72 for its place in the queue; destination-type is a header of the sender.
    weight = 352 + 72 + 100 + len("destination-typeANYCAST")
    assert ask(driver, "address.q", "addressSize") == ("true", weight)
    assert ask(driver, "address.q", "messageCount") == ("true", 1)
    driver.feed(2, send("x" * 100, "q"))
    assert ask(driver, "address.q", "addressSize") == ("true", 2 * weight)
    assert ask(driver, "queue.q", "messageCount") == ("true", 2)


def test_a_message_that_is_with_a_consumer_still_counts(driver: Driver) -> None:
    driver.connect(3)
    driver.feed(3, subscribe(ack="client"))
    delivered = only(driver.feed(2, send("x", "q")), 3)
    assert ask(driver, "address.q", "messageCount") == ("true", 1)
    driver.feed(3, f"ACK\nid:{delivered['ack']}\n\n\0")
    assert ask(driver, "address.q", "messageCount") == ("true", 0)
    assert ask(driver, "address.q", "addressSize") == ("true", 0)


def test_an_address_that_refuses_says_that_it_is_paging_as_artemis_does(driver: Driver) -> None:
    driver.feed(2, send("x" * 100, "full.q"))
    assert ask(driver, "address.full.q", "paging") == ("true", False)
    driver.feed(2, send("x" * 1000, "full.q"))
    assert ask(driver, "address.full.q", "paging") == ("true", True)
    assert ask(driver, "address.full.q", "numberOfPages") == ("true", 0)


@pytest.mark.parametrize(
    ("resource", "attribute", "why"),
    [
        ("address.nowhere", "addressSize", "there is no resource 'address.nowhere'"),
        ("queue.nowhere", "messageCount", "there is no resource 'queue.nowhere'"),
        ("broker", "version", "there is no resource 'broker'"),
        ("address.answers", "size", "an address has no attribute 'size' here; it has addressSize"),
        ("queue.answers", "addressSize", "a queue has no attribute 'addressSize' here"),
    ],
)
def test_what_cannot_be_told_is_answered_with_the_reason(
    driver: Driver, resource: str, attribute: str, why: str
) -> None:
    succeeded, said = ask(driver, resource, attribute)
    assert succeeded == "false"
    assert isinstance(said, str)
    assert said.startswith(why)


def test_a_question_without_a_place_for_the_answer_is_passed_over(driver: Driver) -> None:
    headers = "_AMQ_ResourceName:address.answers\n_AMQ_Attribute:paging\nreceipt:r\n"
    came = only(driver.feed(2, f"SEND\ndestination:activemq.management\n{headers}\n\0"), 2)
    assert came.command == "RECEIPT"
