"""Full addresses over STOMP: who waits, who is told, what is lost, and how it goes on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.model.broker_io import Effect, ResumeReading, StopReading
from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.harness.model.time import ms, seconds
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
    only,
    patient,
    send,
    subscribe,
)

BLOCK, FAIL, DROP, PAGE = FullPolicy.BLOCK, FullPolicy.FAIL, FullPolicy.DROP, FullPolicy.PAGE
CHARGE = MESSAGE + REFERENCE + len("destination-type") + len("ANYCAST") + 1
"""Of a message with a body of one octet."""
RECEIPT = "receipt:{}\n"
TOPIC = "destination-type:MULTICAST\n"
OF_TOPIC = "subscription-type:MULTICAST\n"


def limited(policy: FullPolicy, match: str = "q", **limits: Any) -> Settings:
    return Settings(address_settings=(AddressSetting(match, address_full_policy=policy, **limits),))


def of(policy: FullPolicy, messages: int) -> Driver:
    """A broker whose address q is full with that many messages, and connection 1."""
    driver = Driver(limited(policy, max_size_messages=messages))
    driver.connect(1)
    return driver


def reading(effects: list[Effect], conn: int = 1) -> list[type]:
    """What was asked for about reading a connection."""
    return [
        type(effect)
        for effect in effects
        if isinstance(effect, StopReading | ResumeReading) and effect.conn == conn
    ]


def receipts(effects: list[Effect], conn: int = 1) -> list[str]:
    return [frame["receipt-id"] for frame in frames(effects, conn) if frame.command == "RECEIPT"]


def numbered(*numbers: int, destination: str = "q") -> str:
    return "".join(send(str(number), destination, RECEIPT.format(number)) for number in numbers)


# --- the boundary ---------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [BLOCK, FAIL, DROP])
@pytest.mark.parametrize(
    ("limit", "taken"), [(3 * CHARGE, 3), (3 * CHARGE - 1, 3), (3 * CHARGE + 1, 4), (1, 1), (0, 0)]
)
def test_messages_are_taken_while_there_is_less_than_the_limit(
    policy: FullPolicy, limit: int, taken: int
) -> None:
    driver = Driver(limited(policy, max_size_bytes=limit))
    driver.connect(1)
    driver.connect(2)
    for number in range(taken):
        assert receipts(driver.feed(1, numbered(number))) == [str(number)]
    effects = driver.feed(1, numbered(taken))
    if policy is BLOCK:
        assert effects[1:] == [StopReading(1)]
        assert driver.observed == ["ARTEMIS-FLOW-block-1"]
    elif policy is DROP:
        assert receipts(effects) == [str(taken)]
    else:
        assert only(effects, 1)["message"] == "address is full"
    assert driver.broker._shared.accounting.find("q").messages == taken


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


def test_page_takes_everything() -> None:
    driver = of(PAGE, 1)
    assert receipts(driver.feed(1, numbered(0, 1, 2))) == ["0", "1", "2"]
    assert bodies(driver.feed(1, subscribe()), 1) == ["0", "1", "2"]


# --- FAIL and DROP --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("receipt", ["", "receipt:r\n"])
@pytest.mark.parametrize("inside", ["", "transaction:t\n"])
def test_fail_tells_the_producer_and_closes(version: str, receipt: str, inside: str) -> None:
    driver = of(FAIL, 1)
    driver.connect(2, version)
    driver.feed(2, send("kept") + "BEGIN\ntransaction:t\n\n\0")
    error = only(driver.feed(2, send("refused", headers=receipt + inside) + send("behind")), 2)
    assert (error.command, error["message"]) == ("ERROR", "address is full")
    assert error.headers.get("receipt-id") == ("r" if receipt else None)
    assert b"'q'" in error.body
    assert b"ARTEMIS-PAGING-8" in error.body
    assert driver.closed == [2]
    assert bodies(driver.feed(1, subscribe()), 1) == ["kept"]
    driver.connect(3)
    assert bodies(driver.feed(3, send("after")), 1) == ["after"]


@pytest.mark.parametrize("inside", ["", "transaction:t\n"])
def test_drop_says_nothing(inside: str) -> None:
    driver = of(DROP, 1)
    driver.feed(1, send("kept"))
    assert receipts(
        driver.feed(1, "BEGIN\ntransaction:t\n\n\0" + send("lost", headers="receipt:r\n" + inside))
    ) == ["r"]
    assert driver.feed(1, send("lost too")) == []
    driver.feed(1, "COMMIT\ntransaction:t\n\n\0")
    assert bodies(driver.feed(1, subscribe()), 1) == ["kept"]
    assert bodies(driver.feed(1, send("after")), 1) == ["after"]


def test_what_is_held_in_a_transaction_fills_an_address_before_its_commit() -> None:
    driver = of(FAIL, 2)
    driver.connect(2)
    inside = "transaction:t\n"
    assert (
        driver.feed(
            1, "BEGIN\ntransaction:t\n\n\0" + send("a", headers=inside) + send("b", headers=inside)
        )
        == []
    )
    assert only(driver.feed(2, send("c")), 2).command == "ERROR"
    driver.feed(1, "COMMIT\ntransaction:t\n\n\0")
    assert bodies(driver.feed(1, subscribe()), 1) == ["a", "b"], (
        "what was taken is not looked at again"
    )


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
        for each in got:
            driver.feed(1, f"NACK\nid:{each['ack']}\n\n\0")
        assert driver.broker._shared.accounting.find("dead").messages == kept, policy
        assert driver.broker._shared.accounting.messages == kept, policy


# --- BLOCK ----------------------------------------------------------------------------------------


def test_a_send_waits_with_all_behind_it_until_there_is_room() -> None:
    driver = of(BLOCK, 2)
    driver.connect(2)
    effects = driver.feed(1, numbered(0, 1, 2, 3, 4) + "DISCONNECT\nreceipt:bye\n\n\0")
    assert receipts(effects) == ["0", "1"]
    assert reading(effects) == [StopReading]
    got = frames(driver.feed(2, subscribe(ack="client-individual")), 2)
    assert [each.body for each in got] == [b"0", b"1"]
    effects = driver.feed(2, f"ACK\nid:{got[0]['ack']}\n\n\0")
    assert (receipts(effects), bodies(effects, 2), reading(effects)) == (["2"], ["2"], []), (
        "one for one"
    )
    got += frames(effects, 2)
    effects = driver.feed(2, "".join(f"ACK\nid:{each['ack']}\n\n\0" for each in got[1:]))
    assert (receipts(effects), bodies(effects, 2)) == (["3", "4", "bye"], ["3", "4"])
    assert driver.closed == [1]


def test_reading_goes_on_when_nothing_waits_any_more() -> None:
    driver = of(BLOCK, 1)
    driver.connect(2)
    driver.feed(1, numbered(0, 1))
    effects = driver.feed(2, subscribe())
    assert (receipts(effects), reading(effects)) == (["1"], [ResumeReading])
    assert receipts(driver.feed(1, numbered(2))) == ["2"]


@pytest.mark.parametrize("cut", range(1, 12))
def test_octets_that_were_on_their_way_are_not_lost(cut: int) -> None:
    """Half frames before and behind the one that waits, and chunks that come although reading was
    stopped."""
    driver = of(BLOCK, 1)
    driver.connect(2)
    octets = numbered(0, 1, 2, 3).encode()
    size = len(octets) // 12 * cut
    effects = driver.feed(1, octets[:size]) + driver.feed(1, octets[size:])
    effects += driver.feed(2, subscribe())
    assert receipts(effects) == ["0", "1", "2", "3"]
    assert bodies(effects, 2) == ["0", "1", "2", "3"]


def test_a_connection_that_waits_still_gets_messages_and_may_make_its_own_room() -> None:
    driver = of(BLOCK, 1)
    driver.connect(2)
    driver.feed(1, subscribe("other", destination="other"))
    driver.feed(1, numbered(0, 1))
    assert bodies(driver.feed(2, send("hello", "other")), 1) == ["hello"]
    mixed = Driver(limited(BLOCK, max_size_messages=1))
    mixed.connect(1)
    effects = mixed.feed(1, subscribe() + numbered(0, 1, 2))
    assert (receipts(effects), bodies(effects, 1), reading(effects)) == (
        ["0", "1", "2"],
        ["0", "1", "2"],
        [],
    ), "auto"


def test_other_addresses_and_other_connections_are_not_touched() -> None:
    driver = of(BLOCK, 1)
    driver.connect(2)
    driver.feed(1, numbered(0, 1))
    assert receipts(driver.feed(2, numbered(7, 8, destination="p")), 2) == ["7", "8"]
    assert reading(driver.feed(2, numbered(9)), 2) == [StopReading]


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
        got += [each.body.decode() for each in found]
        effects = driver.feed(5, f"ACK\nid:{found[-1]['ack']}\n\n\0")
    assert got == ["0", "a3", "a1", "a2", "b3", "b1", "b2"], (
        "who had a turn waits behind the others"
    )


@pytest.mark.parametrize("how", ["gone", "deleted"])
def test_room_comes_from_wherever_messages_go(how: str) -> None:
    """A durable subscription that is deleted, and a topic's subscriber that leaves, make room."""
    driver = Driver(limited(BLOCK, "t", max_size_messages=1))
    for conn in (1, 2):
        driver.connect(conn, headers="client-id:c\n")
    durable = "durable-subscription-name:s\n" if how == "deleted" else ""
    driver.feed(2, subscribe(ack="client", destination="t", headers=OF_TOPIC + durable))
    driver.feed(1, send("0", "t", TOPIC))
    effects = driver.feed(1, send("1", "t", TOPIC + "receipt:1\n"))
    assert reading(effects) == [StopReading]
    effects = driver.gone(2)
    if how == "deleted":
        assert effects == []
        driver.connect(3, headers="client-id:c\n")
        effects = driver.feed(3, f"UNSUBSCRIBE\nid:0\n{durable}\n\0")
    assert (receipts(effects), reading(effects)) == (["1"], [ResumeReading])


def test_a_topic_has_room_when_the_last_subscriber_has_acknowledged() -> None:
    driver = Driver(limited(BLOCK, "t", max_size_messages=2))
    driver.connect(1)
    acks: dict[int, list[str]] = {}
    for conn in (2, 3, 4):
        driver.connect(conn)
        driver.feed(conn, subscribe(ack="client-individual", destination="t", headers=OF_TOPIC))
    effects = driver.feed(
        1, "".join(send(str(number), "t", f"{TOPIC}receipt:{number}\n") for number in range(3))
    )
    assert receipts(effects) == ["0", "1"], "three subscribers share one copy"
    for conn in (2, 3, 4):
        acks[conn] = [frame["ack"] for frame in frames(effects, conn)]
    for conn in (4, 2):
        assert (
            receipts(driver.feed(conn, "".join(f"ACK\nid:{each}\n\n\0" for each in acks[conn])))
            == []
        )
    assert receipts(driver.feed(3, f"ACK\nid:{acks[3][1]}\n\n\0")) == ["2"]


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


@pytest.mark.parametrize("end", ["ABORT\ntransaction:t\n\n\0", ""])
def test_a_roll_back_makes_room(end: str) -> None:
    driver = of(BLOCK, 1)
    driver.connect(2)
    driver.feed(2, "BEGIN\ntransaction:t\n\n\0" + send("held", headers="transaction:t\n"))
    assert reading(driver.feed(1, numbered(0))) == [StopReading]
    effects = driver.feed(2, end) if end else driver.gone(2)
    assert (receipts(effects), reading(effects)) == (["0"], [ResumeReading])


def test_what_waited_may_be_refused_for_another_reason() -> None:
    driver = of(BLOCK, 1)
    driver.connect(2)
    driver.feed(1, numbered(0, 1) + "NONSENSE\n\n\0")
    effects = driver.feed(2, subscribe())
    assert [frame.command for frame in frames(effects, 1)] == ["RECEIPT", "ERROR"]
    assert driver.closed == [1]
    assert driver.feed(1, send("too late")) == [], "it is forgotten"


@pytest.mark.parametrize("waiting", [1, 2])
def test_who_is_gone_does_not_go_on(waiting: int) -> None:
    driver = of(BLOCK, 1)
    for conn in (2, 3):
        driver.connect(conn)
    driver.feed(3, send("0"))
    for conn in (1, 2):
        driver.feed(conn, send(str(conn)))
    driver.gone(waiting)
    assert bodies(driver.feed(3, subscribe()), 3) == ["0", str(3 - waiting)]
    assert driver.broker._shared.admission._where == {}
    assert driver.broker._outbox._unread == {}


# --- time -----------------------------------------------------------------------------------------


def test_the_ttl_stands_still_while_a_connection_is_not_read_and_beats_go_on() -> None:
    driver = Driver(limited(BLOCK, max_size_messages=1))
    driver.connect(1, headers="heart-beat:1000,1000\n")  # a TTL of two seconds, looked at every two
    driver.connect(2)
    driver.feed(1, numbered(0, 1))
    effects = driver.run(seconds(30))
    assert driver.closed == []
    assert [at for at, each in effects if each.conn == 1] == [
        seconds(number) for number in range(1, 31)
    ], "beats alone"
    driver.now = seconds(30) + ms(500)
    effects = driver.feed(2, subscribe())
    assert receipts(effects) == ["1"]
    driver.run(seconds(33))
    assert driver.closed == [], "counted from when it is read again"
    driver.run(seconds(36))
    assert driver.closed == [1]


# --- what is taken and what is not, over random courses -------------------------------------------


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
        assert [each for each in got if each.startswith(str(who))] == [
            f"{who} {number}" for number in range(count)
        ]
    assert driver.broker._shared.accounting.size == 0
