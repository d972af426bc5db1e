"""Addresses and queues: routing, round robin, order of returned messages, attempts and dead
letters, deletion."""

import pytest

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.queue import MOST_SERVED, Queue, RoundRobin
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.address_rules import AddressRules
from brokerproof.reference_broker.settings.settings import (
    AddressSetting,
    ConfiguredAddress,
    ConfiguredQueue,
    Settings,
)
from brokerproof.suites.units.drivers.broker import Driver, bodies, frames, only, send, subscribe

ANY, MULTI = RoutingType.ANYCAST, RoutingType.MULTICAST
PLAIN_SEND = "destination-type:MULTICAST\n"


def connected(*conns: int, settings: Settings | None = None) -> Driver:
    driver = Driver(settings)
    for conn in conns:
        driver.connect(conn)
    return driver


# --- leaving --------------------------------------------------------------------------------------


class Leaver:
    """A consumer and browser without room. It counts comparisons with itself."""

    comparisons = 0
    cursor = 0
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        Leaver.comparisons += 1
        return self is other

    def has_room(self) -> bool:
        return False

    def wait_for(self, batch: int) -> None:
        raise AssertionError("nothing is stored here")

    deliver = show = wait_for  # type: ignore[assignment]


def test_those_that_leave_are_not_searched_for_among_the_others() -> None:
    queue = Queue("q", ANY, RoundRobin(), 0, lambda queue, entry: None)
    peers = [Leaver() for _ in range(100)]
    for peer in peers:
        queue.add_consumer(peer)
        queue.browsers.add(peer)
    for peer in reversed(peers):
        queue.remove_consumer(peer)
        queue.browsers.remove(peer)
    assert not queue.in_use
    assert Leaver.comparisons == 0


# --- deep queues ----------------------------------------------------------------------------------


@pytest.mark.parametrize("selector", ["", "selector:color IS NULL\n"])
def test_a_deep_queue_is_handed_out_in_turns_and_in_order(selector: str) -> None:
    driver = connected(1, 2)
    numbers = [f"{number}" for number in range(2 * MOST_SERVED + 1)]
    driver.feed(1, "".join(map(send, numbers)))
    headers = f"consumer-window-size:-1\n{selector}"
    got = bodies(driver.feed(2, subscribe(headers=headers)), 2)
    assert len(got) == MOST_SERVED
    got += bodies(driver.feed(1, send("new")), 2)  # it must not overtake
    while driver.broker.next_deadline() == driver.now:
        turn = bodies(driver.at(driver.now), 2)
        assert 0 < len(turn) <= MOST_SERVED
        got += turn
    assert got == [*numbers, "new"]


def test_deep_queues_take_turns() -> None:
    driver = connected(1, 2)
    for queue in "ab":
        driver.feed(1, send(queue, queue) * 2 * MOST_SERVED)
    for queue in "ab":
        driver.feed(2, subscribe(queue, destination=queue, headers="consumer-window-size:-1\n"))
    turns = []
    while driver.broker.next_deadline() == driver.now:
        turns.append(set(bodies(driver.at(driver.now), 2)))
    assert turns == [{"a"}, {"b"}]


def test_a_declared_queue_takes_turns_too() -> None:
    router = connected(1).broker._shared.router
    assert router.addresses.declare("declared", Queue).serving is router.serving


def test_large_messages_fill_a_turn_sooner() -> None:
    driver = connected(1, 2)
    driver.feed(1, send("x" * 50_000) * 200)
    first = driver.feed(2, subscribe(headers="consumer-window-size:-1\n"))
    assert 40 < len(bodies(first, 2)) < 100


def test_without_a_dead_letter_address_it_is_dropped() -> None:
    driver = connected(
        1, settings=Settings(address_settings=(AddressSetting("q", max_delivery_attempts=1),))
    )
    driver.feed(1, subscribe(ack="client"))
    assert driver.feed(1, f"NACK\nid:{only(driver.feed(1, send('m')), 1)['ack']}\n\n\0") == []


# --- addresses ------------------------------------------------------------------------------------


def test_prefixes_decide_and_are_stripped_and_the_destination_stays_as_sent() -> None:
    acceptor = Acceptor(
        "stomp", anycast_prefix=("queue/", "q/"), multicast_prefix=("topic/", "queue/t/")
    )
    driver = connected(1, settings=Settings(acceptors=(acceptor,)))
    driver.feed(1, "SEND\ndestination:queue/a\n\nm\0")
    got = only(driver.feed(1, "SUBSCRIBE\ndestination:q/a\nid:1\n\n\0"), 1)
    assert (got.body, got["destination"]) == (b"m", "queue/a")
    driver.feed(
        1, "SUBSCRIBE\ndestination:topic/b\nid:2\n\n\0SUBSCRIBE\ndestination:queue/t/b\nid:3\n\n\0"
    )
    assert len(frames(driver.feed(1, "SEND\ndestination:topic/b\n\nm\0"), 1)) == 2
    driver.feed(1, "SEND\ndestination:queue/\n\nm\0")
    assert driver.observed == ["STOMP12-SEND-01"]


def test_what_must_not_be_created_is_refused() -> None:
    rules = (
        AddressSetting("no.#", auto_create_addresses=False),
        AddressSetting("noq.#", auto_create_queues=False),
    )
    configured = (ConfiguredAddress("no.yes", routing=frozenset({MULTI})),)
    driver = connected(
        1, 2, 3, 4, 5, 6, settings=Settings(address_settings=rules, addresses=configured)
    )
    driver.feed(1, send("m", "no.a"))
    driver.feed(2, subscribe(destination="no.a"))
    driver.feed(3, send("m", "noq.a"))
    driver.feed(4, "BEGIN\ntransaction:t\n\n\0" + send("m", "no.a", "transaction:t\n"))
    driver.feed(5, send("m", "no.yes"))
    driver.feed(6, send("m", "no.yes", PLAIN_SEND) + send("m", "noq.a", PLAIN_SEND))
    assert driver.observed == ["STOMP12-SEND-07", "STOMP12-SUB-03", *["STOMP12-SEND-07"] * 3]
    assert driver.closed == [1, 2, 3, 4, 5]


def test_a_configured_queue_keeps_what_comes_before_its_consumers() -> None:
    address = ConfiguredAddress("a", queues=(ConfiguredQueue("other", ANY),))
    driver = connected(1, settings=Settings(addresses=(address,)))
    driver.feed(1, "SEND\ndestination:a\n\nm\0")
    assert bodies(driver.feed(1, "SUBSCRIBE\nid:1\ndestination:a\n\n\0"), 1) == ["m"]


def test_a_queue_that_went_is_made_again_although_its_address_stayed() -> None:
    driver = connected(1)
    driver.feed(1, subscribe("multi", headers="subscription-type:MULTICAST\n") + subscribe("any"))
    driver.feed(1, "UNSUBSCRIBE\nid:any\n\n\0" + send("kept"))
    assert bodies(driver.feed(1, subscribe("any")), 1) == ["kept"]


@pytest.mark.parametrize(
    ("matches", "address", "attempts"),
    [
        (["#"], "a.b", 0), (["a.#", "#"], "a.b", 0), (["#", "a.#"], "a.b", 1), (["#", "a.#"], "a", 1), (["#", "a.#"], "ab", 0),  # noqa: E501
        (["a.#", "a.b.#"], "a.b.c", 1), (["a.*", "a.#"], "a.b", 0), (["a.*", "#"], "a.b.c", 1), (["a.b", "a.*"], "a.b", 0),  # noqa: E501
        (["*.b", "a.*"], "a.b", 1), (["a.*.c", "#"], "a.b.c", 0), (["a.*.c", "#"], "a.c", 1), (["a+.#", "#"], "aa.b", 1),  # noqa: E501
        (["a.*", "#"], "a.", 1), (["x*", "#"], "xyz", 0), (["xy*.b", "x*.b"], "xyz.b", 1), (["a.b.#", "a.*"], "a.b", 1),  # noqa: E501
    ],
)  # fmt: skip
def test_the_most_specific_match_wins(matches: list[str], address: str, attempts: int) -> None:
    rules = tuple(AddressSetting(each, max_delivery_attempts=n) for n, each in enumerate(matches))
    found = AddressRules(Settings(address_settings=rules)).of(address).max_delivery_attempts
    assert found == attempts


def test_the_characters_of_matches_can_be_others() -> None:
    rules = (
        AddressSetting("a/%", max_delivery_attempts=1),
        AddressSetting("a/+/c", max_delivery_attempts=2),
    )
    characters = {"wildcard_delimiter": "/", "wildcard_any_words": "%", "wildcard_single_word": "+"}
    of = AddressRules(Settings(address_settings=rules, **characters)).of
    found = {
        name: of(name).max_delivery_attempts
        for name in ("a", "a/x", "a/x/c", "a/x.y/c", "a.x", "a/#", "b")
    }
    assert found == {"a": 1, "a/x": 1, "a/x/c": 2, "a/x.y/c": 2, "a.x": 10, "a/#": 1, "b": 10}


def test_what_the_most_specific_match_leaves_out_comes_from_the_next() -> None:
    rules = (
        AddressSetting("#", dead_letter_address="D"),
        AddressSetting("a", max_delivery_attempts=3),
    )
    found = AddressRules(Settings(address_settings=rules)).of("a")
    assert found.dead_letter_address == "D"
    assert found.max_delivery_attempts == 3
    assert found.auto_create_queues is True
