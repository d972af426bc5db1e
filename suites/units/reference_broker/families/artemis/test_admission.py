"""Full addresses over STOMP: who waits, who is told, what is lost, and how it goes on."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.model.broker_io import Effect, ResumeReading, StopReading
from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.reference_broker.families.artemis.accounting import MESSAGE, REFERENCE
from brokerproof.reference_broker.settings.settings import (
    AddressSetting,
    ConfiguredAddress,
    ConfiguredQueue,
    Settings,
)
from brokerproof.suites.units.drivers.broker import (
    Driver,
    bodies,
    frames,
    patient,
    send,
    subscribe,
)

BLOCK, FAIL, DROP, PAGE = FullPolicy.BLOCK, FullPolicy.FAIL, FullPolicy.DROP, FullPolicy.PAGE
CHARGE = MESSAGE + REFERENCE + len("destination-type") + len("ANYCAST") + 1
"""Of a message with a body of one byte."""
RECEIPT = "receipt:{}\n"


def limited(policy: FullPolicy, match: str = "q", **limits: Any) -> Settings:
    return Settings(address_settings=(AddressSetting(match, address_full_policy=policy, **limits),))


def of(policy: FullPolicy, messages: int) -> Driver:
    driver = Driver(limited(policy, max_size_messages=messages))
    driver.connect(1)
    return driver


def reading(effects: list[Effect], conn: int = 1) -> list[type]:
    """Return the requests to stop or resume reading a connection."""
    return [
        type(effect)
        for effect in effects
        if isinstance(effect, StopReading | ResumeReading) and effect.conn == conn
    ]


def receipts(effects: list[Effect], conn: int = 1) -> list[str]:
    return [frame["receipt-id"] for frame in frames(effects, conn) if frame.command == "RECEIPT"]


def numbered(*numbers: int, destination: str = "q") -> str:
    return "".join(send(str(number), destination, RECEIPT.format(number)) for number in numbers)


@pytest.mark.parametrize("policy", [BLOCK, FAIL, DROP])
@pytest.mark.parametrize(
    "limit", [{"global_max_size_bytes": 2 * CHARGE}, {"global_max_messages": 2}]
)
def test_a_global_limit_brings_the_policy_of_each_address(
    policy: FullPolicy, limit: dict[str, int]
) -> None:
    rules = (
        AddressSetting("q", address_full_policy=policy),
        AddressSetting("p", address_full_policy=PAGE),
    )
    driver = Driver(Settings(address_settings=rules, **limit))  # type: ignore[arg-type]
    driver.connect(1)
    driver.connect(2)
    driver.feed(2, send("0", "p") + send("1", "p"))
    assert receipts(driver.feed(2, numbered(2, destination="p")), 2) == ["2"], "what pages is taken"
    effects = driver.feed(1, numbered(0))
    assert receipts(effects) == (["0"] if policy is DROP else [])
    assert driver.closed == ([1] if policy is FAIL else [])
    effects = driver.feed(2, subscribe(destination="p"))
    assert receipts(effects) == (["0"] if policy is BLOCK else []), "room elsewhere is room here"


def test_dead_letters_find_room_unless_they_are_to_be_dropped() -> None:
    for policy, kept in ((BLOCK, 2), (FAIL, 2), (PAGE, 2), (DROP, 1)):
        rules = (
            AddressSetting("q", max_delivery_attempts=1, dead_letter_address="dead"),
            AddressSetting("dead", max_size_messages=1, address_full_policy=policy),
        )
        dead = ConfiguredAddress("dead", queues=(ConfiguredQueue("dead", RoutingType.ANYCAST),))
        driver = Driver(Settings(address_settings=rules, addresses=(dead,)))
        driver.connect(1)
        got = frames(driver.feed(1, subscribe(ack="client-individual") + send("a") + send("b")), 1)
        for frame in got:
            driver.feed(1, f"NACK\nid:{frame['ack']}\n\n\0")
        assert driver.broker._shared.accounting.find("dead").messages == kept, policy
        assert driver.broker._shared.accounting.messages == kept, policy


def test_a_send_waits_with_all_behind_it_until_there_is_room() -> None:
    driver = of(BLOCK, 2)
    driver.connect(2)
    effects = driver.feed(1, numbered(0, 1, 2, 3, 4) + "DISCONNECT\nreceipt:bye\n\n\0")
    assert receipts(effects) == ["0", "1"]
    assert reading(effects) == [StopReading]
    got = frames(driver.feed(2, subscribe(ack="client-individual")), 2)
    assert [frame.body for frame in got] == [b"0", b"1"]
    effects = driver.feed(2, f"ACK\nid:{got[0]['ack']}\n\n\0")
    assert (receipts(effects), bodies(effects, 2), reading(effects)) == (["2"], ["2"], []), (
        "one for one"
    )
    got += frames(effects, 2)
    effects = driver.feed(2, "".join(f"ACK\nid:{frame['ack']}\n\n\0" for frame in got[1:]))
    assert (receipts(effects), bodies(effects, 2)) == (["3", "4", "bye"], ["3", "4"])
    assert driver.closed == [1]


@pytest.mark.parametrize("cut", range(1, 12))
def test_bytes_that_were_on_their_way_are_not_lost(cut: int) -> None:
    """Half frames before and behind the one that waits, and chunks that come although reading was
    stopped."""
    driver = of(BLOCK, 1)
    driver.connect(2)
    data = numbered(0, 1, 2, 3).encode()
    size = len(data) // 12 * cut
    effects = driver.feed(1, data[:size]) + driver.feed(1, data[size:])
    effects += driver.feed(2, subscribe())
    assert receipts(effects) == ["0", "1", "2", "3"]
    assert bodies(effects, 2) == ["0", "1", "2", "3"]


def test_those_who_wait_go_on_in_the_order_in_which_they_came() -> None:
    driver = of(BLOCK, 1)
    for conn in (2, 3, 4):
        driver.connect(conn)
    driver.feed(1, send("0"))
    for conn in (3, 1, 2):
        driver.feed(conn, send(f"a{conn}") + send(f"b{conn}"))
    effects = driver.feed(4, subscribe())
    assert bodies(effects, 4) == ["0", "a3", "b3", "a1", "b1", "a2", "b2"]
    driver.gone(4)
    driver.connect(5)
    driver.feed(1, send("0"))
    for conn in (3, 1, 2):
        driver.feed(conn, send(f"a{conn}") + send(f"b{conn}"))
    got = []
    effects = driver.feed(5, subscribe(ack="client"))
    while found := frames(effects, 5):
        got += [frame.body.decode() for frame in found]
        effects = driver.feed(5, f"ACK\nid:{found[-1]['ack']}\n\n\0")
    assert got == ["0", "a3", "a1", "a2", "b3", "b1", "b2"], (
        "who had a turn waits behind the others"
    )


def test_a_transaction_that_holds_messages_can_always_be_ended() -> None:
    driver = of(BLOCK, 2)
    driver.connect(2)
    inside = "transaction:t\n"
    driver.feed(1, "BEGIN\ntransaction:t\n\n\0")
    sends = "".join(send(str(number), headers=inside) for number in range(4))
    effects = driver.feed(1, sends + "COMMIT\ntransaction:t\nreceipt:c\n\n\0")
    assert (receipts(effects), reading(effects)) == (["c"], [])
    effects = driver.feed(1, "BEGIN\ntransaction:t\n\n\0" + send("4", headers=inside))
    assert reading(effects) == [StopReading], "one that holds nothing waits"
    effects = driver.feed(2, subscribe())
    assert (bodies(effects, 2), reading(effects)) == (["0", "1", "2", "3"], [ResumeReading])
    assert bodies(driver.feed(1, "COMMIT\ntransaction:t\n\n\0"), 2) == ["4"]


def test_what_waited_may_be_refused_for_another_reason() -> None:
    driver = of(BLOCK, 1)
    driver.connect(2)
    driver.feed(1, numbered(0, 1) + "NONSENSE\n\n\0")
    effects = driver.feed(2, subscribe())
    assert [frame.command for frame in frames(effects, 1)] == ["RECEIPT", "ERROR"]
    assert driver.closed == [1]
    assert driver.feed(1, send("too late")) == [], "it is forgotten"


@given(
    limit=st.integers(1, 5),
    steps=st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.integers(1, 4)), max_size=25),
)
@patient
def test_nothing_is_lost_doubled_or_out_of_place_and_no_limit_is_passed(
    limit: int, steps: list[tuple[int, int]]
) -> None:
    """Two producers send runs of messages, a consumer (3) acknowledges some. The address never has
    more than its limit, and in the end the consumer has everything of each producer, in order."""
    driver = Driver(limited(BLOCK, max_size_messages=limit))
    sent = {1: 0, 2: 0}
    for conn in (1, 2, 3):
        driver.connect(conn)
    got: list[str] = []
    held: list[str] = []

    def feed(conn: int, data: str) -> None:
        for frame in frames(driver.feed(conn, data), 3):
            got.append(frame.body.decode())
            held.append(frame["ack"])
        assert driver.broker._shared.accounting.find("q").messages <= limit

    feed(3, subscribe(ack="client"))
    for who, count in steps:
        if who == 3:
            taken, held[:] = held[:count], held[count:]
            if taken:
                feed(3, f"ACK\nid:{taken[-1]}\n\n\0")
            continue
        feed(who, "".join(send(f"{who} {sent[who] + number}") for number in range(count)))
        sent[who] += count
    while held:
        last, held[:] = held[-1], []
        feed(3, f"ACK\nid:{last}\n\n\0")
    for who, count in sent.items():
        assert [body for body in got if body.startswith(str(who))] == [
            f"{who} {number}" for number in range(count)
        ]
    assert driver.broker._shared.accounting.size == 0
