"""Credit in bytes in the reference broker's CORE protocol, of consumers and of producers."""

import pytest

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.harness.protocols.core.messages import Message
from brokerproof.reference_broker.families.artemis.accounting import MESSAGE, REFERENCE
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers.core import CORE, CoreClient, bodies, client, names

HEAD = 12
"""Bytes of a delivery beyond its producer's charge, without the 13 of the packet's header."""


def sized(cost: int) -> Message:
    body = cost - Message("q").cost
    assert body >= 0
    return Message("q", bytes(body))


def packet_of(cost: int) -> int:
    return cost + 13 + HEAD


def waiting(count: int, cost: int = 100) -> CoreClient:
    one = client()
    one.queue("q")
    for _ in range(count):
        one.say("send", message=sized(cost))
    assert bodies(one.consumer("q")) == []
    return one


L = packet_of(100)


def test_the_answer_to_force_delivery_comes_behind_all_messages_and_costs_nothing() -> None:
    one = waiting(3)
    one.credit(L + 1)
    for _ in range(2):
        (forced,) = one.say("force-delivery", consumer=0, sequence=4)
        assert forced.message.get("_hornetq.forced.delivery.seq") == 4
    assert len(bodies(one.credit(L))) == 1  # 1 - L was left


def test_a_browser_has_credit_too_and_takes_nothing_away() -> None:
    one = client()
    one.queue("q")
    for _ in range(3):
        one.say("send", message=sized(100))
    one.consumer("q", browse_only=True)
    assert len(bodies(one.credit(L + 1))) == 2
    assert len(bodies(one.credit(-1))) == 1
    (about,) = one.say("queue-query", queue="q")
    assert about["message-count"] == 3


MAX = 10_000
CHARGE = MESSAGE + REFERENCE


def limited(
    policy: FullPolicy, *, within_room: bool = True, messages: int | None = None
) -> CoreClient:
    """A client of a broker whose addresses are full at MAX bytes, or at a number of messages."""
    size = MAX if messages is None else None
    rule = AddressSetting(
        "#", max_size_bytes=size, max_size_messages=messages, address_full_policy=policy
    )
    one = client(
        Settings(acceptors=(CORE,), address_settings=(rule,), core_grants_within_room=within_room)
    )
    one.queue("q")
    return one


def granted(client: CoreClient, credits: int) -> list[int]:
    came = client.say("request-producer-credits", credits=credits, address="q")
    assert set(names(came)) <= {"producer-credits"}
    return [packet["credits"] for packet in came]


def fill(one: CoreClient) -> int:
    """Fill the address with messages of 1000 bytes; return their number."""
    count = 0
    while count * (1000 + CHARGE) < MAX:
        one.say("send", message=sized(1000))
        count += 1
    return count


def take_one(one: CoreClient) -> list[int]:
    (received,) = one.consumer("q", credit=1)[1:]
    came = one.say("acknowledge", consumer=0, message=received.message.id, requires_response=True)
    came += one.say("close-consumer", consumer=0)
    return [packet["credits"] for packet in came if packet.name == "producer-credits"]


@pytest.mark.parametrize(
    ("within_room", "first", "second"), [(True, [32], [68, 50]), (False, [100, 50], [])]
)
def test_a_full_address_gives_nothing_until_it_has_room(
    within_room: bool, first: list[int], second: list[int]
) -> None:
    one = limited(FullPolicy.BLOCK, within_room=within_room)
    fill(one)
    assert granted(one, 100) == []
    assert granted(one, 50) == []
    assert take_one(one) == first
    assert take_one(one) == second


def test_the_release_gives_all_that_is_asked_for_unless_it_is_full() -> None:
    one = limited(FullPolicy.BLOCK, within_room=False)
    assert granted(one, 5 * MAX) == [5 * MAX]
    assert granted(one, 5 * MAX) == [5 * MAX]
