"""Full addresses over STOMP: which producers wait or get an error, what is dropped, and how
producers continue."""

from typing import Any

from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.reference_broker.settings.settings import (
    AddressSetting,
    ConfiguredAddress,
    ConfiguredQueue,
    Settings,
)
from brokerproof.suites.units.drivers.broker import Driver, bodies, frames, send, subscribe

BLOCK, FAIL, DROP, PAGE = FullPolicy.BLOCK, FullPolicy.FAIL, FullPolicy.DROP, FullPolicy.PAGE
RECEIPT = "receipt:{}\n"


def limited(policy: FullPolicy, match: str = "q", **limits: Any) -> Settings:
    return Settings(address_settings=(AddressSetting(match, address_full_policy=policy, **limits),))


def of(policy: FullPolicy, messages: int) -> Driver:
    driver = Driver(limited(policy, max_size_messages=messages))
    driver.connect(1)
    return driver


def numbered(*numbers: int, destination: str = "q") -> str:
    return "".join(send(str(number), destination, RECEIPT.format(number)) for number in numbers)


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


def test_what_waited_may_be_refused_for_another_reason() -> None:
    driver = of(BLOCK, 1)
    driver.connect(2)
    driver.feed(1, numbered(0, 1) + "NONSENSE\n\n\0")
    effects = driver.feed(2, subscribe())
    assert [frame.command for frame in frames(effects, 1)] == ["RECEIPT", "ERROR"]
    assert driver.closed == [1]
    assert driver.feed(1, send("too late")) == [], "it is forgotten"
