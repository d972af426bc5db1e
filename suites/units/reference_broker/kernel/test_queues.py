"""Addresses and queues: routing, round robin, order of what comes back, attempts and dead letters,
deletion."""

from __future__ import annotations

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from brokerproof.harness.model.broker_io import SendBytes
from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.address_rules import AddressRules
from brokerproof.reference_broker.settings.settings import (
    AddressSetting,
    ConfiguredAddress,
    ConfiguredQueue,
    Settings,
)
from brokerproof.suites.units.drivers.broker import (
    Driver,
    Received,
    bodies,
    frames,
    only,
    send,
    subscribe,
)

ANY, MULTI = RoutingType.ANYCAST, RoutingType.MULTICAST
PLAIN_SEND = "destination-type:MULTICAST\n"


def connected(*conns: int, settings: Settings | None = None) -> Driver:
    driver = Driver(settings)
    for conn in conns:
        driver.connect(conn)
    return driver


def acks(effects: list[object], conn: int) -> dict[str, str]:
    """ack id by body."""
    return {
        frame.body.decode(): frame["ack"]
        for frame in frames(effects, conn)
        if frame.command == "MESSAGE"
    }  # type: ignore[arg-type]


# --- round robin ----------------------------------------------------------------------------------


def test_consumers_take_turns() -> None:
    driver = connected(1, 2, 3)
    for conn in (1, 2, 3):
        driver.feed(conn, subscribe())
    effects = driver.feed(1, "".join(send(str(n)) for n in range(7)))
    assert [bodies(effects, conn) for conn in (1, 2, 3)] == [
        ["0", "3", "6"],
        ["1", "4"],
        ["2", "5"],
    ]


def test_a_consumer_without_room_is_passed_over() -> None:
    driver = connected(1, 2)
    driver.feed(1, subscribe(ack="client", headers="consumer-window-size:0\n"))
    driver.feed(2, subscribe())
    effects = driver.feed(1, "".join(send(str(n)) for n in range(5)))
    assert [bodies(effects, conn) for conn in (1, 2)] == [["0"], ["1", "2", "3", "4"]]


def test_one_call_gives_each_connection_one_piece_of_octets() -> None:
    driver = connected(1, 2)
    driver.feed(1, subscribe())
    driver.feed(2, subscribe())
    effects = driver.feed(1, send("a", headers="receipt:r\n") * 10)
    assert [type(effect) for effect in effects] == [SendBytes, SendBytes]


# --- what comes back ------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["gone", "disconnect", "unsubscribe", "malformed"])
def test_unsettled_messages_go_back_in_their_order_and_say_so(end: str) -> None:
    driver = connected(1, 2, 9)
    driver.feed(1, subscribe(ack="client-individual"))
    sent = driver.feed(9, "".join(send(str(n)) for n in range(5)))
    driver.feed(1, f"ACK\nid:{acks(sent, 1)['2']}\n\n\0")
    match end:
        case "gone":
            driver.gone(1)
        case "disconnect":
            driver.feed(1, "DISCONNECT\n\n\0")
        case "unsubscribe":
            driver.feed(1, "UNSUBSCRIBE\nid:0\n\n\0")
        case _:
            driver.feed(1, "WHAT\n\n\0")
    driver.feed(9, send("5"))
    got = frames(driver.feed(2, subscribe()), 2)
    assert [each.body for each in got] == [b"0", b"1", b"3", b"4", b"5"]
    assert [each.headers.get("redelivered") for each in got] == ["true"] * 4 + [None]


def test_messages_given_back_at_different_times_find_their_places() -> None:
    driver = connected(1, 2, 9)
    driver.feed(1, subscribe(ack="client-individual", headers="consumer-window-size:1\n"))
    driver.feed(2, subscribe(ack="client-individual", headers="consumer-window-size:1\n"))
    driver.feed(9, "".join(send(str(n)) for n in range(4)))  # 0 is with 1, 1 is with 2
    driver.gone(2)
    driver.gone(1)
    driver.connect(3)
    assert bodies(driver.feed(3, subscribe()), 3) == ["0", "1", "2", "3"]


def test_what_two_subscriptions_of_one_connection_give_back_is_in_order_too() -> None:
    driver = connected(1, 2, 9)
    window = "consumer-window-size:0\n"
    driver.feed(1, subscribe("a", "client-individual", headers=window))
    driver.feed(1, subscribe("b", "client-individual", headers=window))
    got = acks(driver.feed(9, send("0") + send("1") + send("2")), 1)
    driver.feed(1, f"ACK\nid:{got['0']}\n\n\0")  # a, which leaves first, now holds 2, and b holds 1
    driver.feed(2, subscribe())
    assert bodies(driver.gone(1), 2) == ["1", "2"]


def test_a_nack_brings_the_message_back_with_a_new_ack_id() -> None:
    driver = connected(1)
    driver.feed(1, subscribe(ack="client"))
    first = only(driver.feed(1, send("m")), 1)
    again = only(driver.feed(1, f"NACK\nid:{first['ack']}\n\n\0"), 1)
    assert (again["message-id"], again["redelivered"]) == (first["message-id"], "true")
    assert again["ack"] != first["ack"]
    driver.feed(1, f"ACK\nid:{first['ack']}\n\n\0")
    assert driver.observed == ["STOMP12-ACK-01"]


def test_a_cumulative_nack_brings_all_of_them_back() -> None:
    driver = connected(1)
    driver.feed(1, subscribe(ack="client"))
    ids = acks(driver.feed(1, send("a") + send("b") + send("c")), 1)
    assert bodies(driver.feed(1, f"NACK\nid:{ids['b']}\n\n\0"), 1) == ["a", "b"]


@pytest.mark.parametrize(("attempts", "deliveries"), [(None, 10), (1, 1), (3, 3)])
def test_after_so_many_failures_a_message_is_dead(attempts: int | None, deliveries: int) -> None:
    rule = AddressSetting("#", max_delivery_attempts=attempts, dead_letter_address="DLQ")
    dlq = ConfiguredAddress("DLQ", queues=(ConfiguredQueue("DLQ", ANY),))
    driver = connected(1, 2, settings=Settings(address_settings=(rule,), addresses=(dlq,)))
    driver.feed(2, subscribe(destination="DLQ"))
    driver.feed(1, subscribe(ack="client"))
    frame = only(driver.feed(1, send("m")), 1)
    for _ in range(deliveries - 1):
        frame = only(driver.feed(1, f"NACK\nid:{frame['ack']}\n\n\0"), 1)
    effects = driver.feed(1, f"NACK\nid:{frame['ack']}\n\n\0")
    assert (bodies(effects, 1), bodies(effects, 2)) == ([], ["m"])
    assert only(effects, 2)["destination"] == "q"


def test_without_a_dead_letter_address_it_is_dropped() -> None:
    driver = connected(
        1, settings=Settings(address_settings=(AddressSetting("q", max_delivery_attempts=1),))
    )
    driver.feed(1, subscribe(ack="client"))
    assert driver.feed(1, f"NACK\nid:{only(driver.feed(1, send('m')), 1)['ack']}\n\n\0") == []


def test_attempts_without_a_limit() -> None:
    driver = connected(
        1, settings=Settings(address_settings=(AddressSetting("q", max_delivery_attempts=-1),))
    )
    driver.feed(1, subscribe(ack="client"))
    frame = only(driver.feed(1, send("m")), 1)
    for _ in range(30):
        frame = only(driver.feed(1, f"NACK\nid:{frame['ack']}\n\n\0"), 1)


def test_a_lost_connection_does_not_count_against_a_message() -> None:
    driver = connected(
        100, settings=Settings(address_settings=(AddressSetting("q", max_delivery_attempts=2),))
    )
    driver.feed(100, send("m"))
    for conn in range(1, 20):
        driver.connect(conn)
        assert bodies(driver.feed(conn, subscribe(ack="client")), conn) == ["m"]
        driver.gone(conn)


# --- addresses ------------------------------------------------------------------------------------


def test_a_multicast_message_goes_to_every_subscription_and_is_kept_for_nobody() -> None:
    driver = connected(1, 2)
    topic = "subscription-type:MULTICAST\n"
    driver.feed(1, send("lost", headers=PLAIN_SEND))
    driver.feed(1, subscribe("a", headers=topic) + subscribe("b", headers=topic))
    driver.feed(2, subscribe("c", headers=topic))
    effects = driver.feed(2, send("m", headers=PLAIN_SEND))
    assert [frame["subscription"] for frame in frames(effects, 1) + frames(effects, 2)] == [
        "a",
        "b",
        "c",
    ]
    assert len({frame["message-id"] for frame in frames(effects, 1) + frames(effects, 2)}) == 3
    assert bodies(effects, 1) == ["m", "m"]


def test_an_anycast_message_waits() -> None:
    driver = connected(1)
    driver.feed(1, send("m"))
    assert bodies(driver.feed(1, subscribe()), 1) == ["m"]


def test_without_any_wish_a_destination_is_multicast() -> None:
    driver = connected(1)
    driver.feed(1, "SEND\ndestination:t\n\nlost\0")
    driver.feed(1, "SUBSCRIBE\ndestination:t\nid:1\n\n\0SUBSCRIBE\ndestination:t\nid:2\n\n\0")
    assert len(frames(driver.feed(1, "SEND\ndestination:t\n\nm\0"), 1)) == 2


def test_address_settings_decide_when_the_frame_does_not() -> None:
    rules = (
        AddressSetting("queue/#", default_address_routing_type=ANY),
        AddressSetting("topic/#", default_address_routing_type=MULTI),
    )
    driver = connected(1, settings=Settings(address_settings=rules, wildcard_delimiter="/"))
    for name, expected in [("queue/a", ["m"]), ("topic/a", []), ("queue", ["m"])]:
        driver.feed(1, f"SEND\ndestination:{name}\n\nm\0")
        assert (
            bodies(driver.feed(1, f"SUBSCRIBE\ndestination:{name}\nid:{name}\n\n\0"), 1) == expected
        )


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


def test_a_message_for_one_side_of_an_address_stays_there() -> None:
    driver = connected(1)
    driver.feed(1, subscribe("any") + subscribe("multi", headers="subscription-type:MULTICAST\n"))
    assert only(driver.feed(1, send("m")), 1)["subscription"] == "any"
    assert only(driver.feed(1, send("m", headers=PLAIN_SEND)), 1)["subscription"] == "multi"
    both = frames(driver.feed(1, "SEND\ndestination:q\n\nm\0"), 1)
    assert {each["subscription"] for each in both} == {"any", "multi"}


@pytest.mark.parametrize(
    ("kind", "ok"), [("anycast", False), ("Multicast", False), ("", False), ("ANYCAST", True)]
)
def test_routing_types_are_exact(kind: str, ok: bool) -> None:
    driver = connected(1, 2)
    driver.feed(1, f"SEND\ndestination:q\ndestination-type:{kind}\n\n\0")
    driver.feed(2, f"SUBSCRIBE\nid:1\ndestination:q\nsubscription-type:{kind}\n\n\0")
    assert driver.observed == ([] if ok else ["ARTEMIS-STOMP-routing-1"] * 2)


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


def test_what_was_made_on_demand_goes_when_it_is_of_no_more_use() -> None:
    """Visible because an address that is gone has forgotten that it was ANYCAST."""
    driver = connected(1)
    driver.feed(1, subscribe() + "UNSUBSCRIBE\nid:0\n\n\0" + "SEND\ndestination:q\n\nlost\0")
    assert driver.feed(1, subscribe("1")) == []
    driver.feed(1, "UNSUBSCRIBE\nid:1\n\n\0" + send("kept"))
    assert bodies(driver.feed(1, "SUBSCRIBE\nid:2\ndestination:q\n\n\0"), 1) == ["kept"]


def test_a_queue_that_went_is_made_again_although_its_address_stayed() -> None:
    driver = connected(1)
    driver.feed(1, subscribe("multi", headers="subscription-type:MULTICAST\n") + subscribe("any"))
    driver.feed(1, "UNSUBSCRIBE\nid:any\n\n\0" + send("kept"))
    assert bodies(driver.feed(1, subscribe("any")), 1) == ["kept"]


def test_a_queue_outlives_its_consumers_when_told_to() -> None:
    driver = connected(
        1, settings=Settings(address_settings=(AddressSetting("#", auto_delete_queues=False),))
    )
    driver.feed(1, subscribe() + "UNSUBSCRIBE\nid:0\n\n\0" + "SEND\ndestination:q\n\nkept\0")
    assert bodies(driver.feed(1, subscribe("1")), 1) == ["kept"]


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
    assert (
        AddressRules(Settings(address_settings=rules)).of(address).max_delivery_attempts == attempts
    )


def test_the_characters_of_matches_can_be_others() -> None:
    rules = (
        AddressSetting("a/%", max_delivery_attempts=1),
        AddressSetting("a/+/c", max_delivery_attempts=2),
    )
    characters = {"wildcard_delimiter": "/", "wildcard_any_words": "%", "wildcard_single_word": "+"}
    of = AddressRules(Settings(address_settings=rules, **characters)).of
    found = {
        each: of(each).max_delivery_attempts
        for each in ("a", "a/x", "a/x/c", "a/x.y/c", "a.x", "a/#", "b")
    }
    assert found == {"a": 1, "a/x": 1, "a/x/c": 2, "a/x.y/c": 2, "a.x": 10, "a/#": 1, "b": 10}


def test_what_the_most_specific_match_leaves_out_comes_from_the_next() -> None:
    rules = (
        AddressSetting("#", dead_letter_address="D"),
        AddressSetting("a", max_delivery_attempts=3),
    )
    found = AddressRules(Settings(address_settings=rules)).of("a")
    assert (found.dead_letter_address, found.max_delivery_attempts, found.auto_create_queues) == (
        "D",
        3,
        True,
    )


# --- nothing is lost, nothing is doubled, nothing overtakes ---------------------------------------


class QueueMachine(RuleBasedStateMachine):
    """Consumers come, settle and go in any way; the model knows where each message is."""

    @initialize(window=st.sampled_from([0, 300, -1]))
    def start(self, window: int) -> None:
        unlimited = (AddressSetting("#", max_delivery_attempts=-1),)
        self.driver = connected(1000, settings=Settings(address_settings=unlimited))
        self.window = window
        self.conns = 0
        self.sent = 0
        self.waiting: list[int] = []
        self.held: dict[int, dict[int, str]] = {}

    def take(self, effects: list[object]) -> None:
        """What was delivered was the oldest that waited, each time a consumer was served."""
        given: list[int] = []
        for conn in list(self.held):
            got: list[Received] = [
                frame for frame in frames(effects, conn) if frame.command == "MESSAGE"
            ]  # type: ignore[arg-type]
            numbers = [int(each.body) for each in got]
            assert numbers == sorted(numbers)
            self.held[conn].update({int(each.body): each["ack"] for each in got})
            given += numbers
        assert sorted(given) == self.waiting[: len(given)]
        del self.waiting[: len(given)]

    def back(self, numbers: list[int]) -> None:
        self.waiting = sorted(self.waiting + numbers)

    @rule()
    def arrive(self) -> None:
        self.conns += 1
        self.driver.connect(self.conns)
        self.held[self.conns] = {}
        headers = f"consumer-window-size:{self.window}\n"
        self.take(self.driver.feed(self.conns, subscribe(ack="client-individual", headers=headers)))

    @rule(count=st.integers(1, 4))
    def produce(self, count: int) -> None:
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        self.waiting += numbers
        self.take(self.driver.feed(1000, "".join(send(str(number)) for number in numbers)))

    @precondition(lambda self: any(self.held.values()))
    @rule(
        data=st.data(),
        verb=st.sampled_from(["ACK", "NACK"]),
        how=st.sampled_from(["", "COMMIT", "ABORT"]),
    )
    def settle(self, data: st.DataObject, verb: str, how: str) -> None:
        conn = data.draw(st.sampled_from([each for each in self.held if self.held[each]]))
        number = data.draw(st.sampled_from(sorted(self.held[conn])))
        ack = self.held[conn].pop(number)
        if how:
            self.take(
                self.driver.feed(
                    conn, f"BEGIN\ntransaction:t\n\n\0{verb}\ntransaction:t\nid:{ack}\n\n\0"
                )
            )
        if verb == "NACK" or how == "ABORT":
            self.back([number])
        end = f"{how}\ntransaction:t\n\n\0" if how else f"{verb}\nid:{ack}\n\n\0"
        self.take(self.driver.feed(conn, end))

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        how=st.sampled_from(["gone", "DISCONNECT\n\n\0", "UNSUBSCRIBE\nid:0\n\n\0", "?\n\n\0"]),
    )
    def leave(self, data: st.DataObject, how: str) -> None:
        conn = data.draw(st.sampled_from(sorted(self.held)))
        self.back(list(self.held.pop(conn)))
        self.take(self.driver.gone(conn) if how == "gone" else self.driver.feed(conn, how))

    @invariant()
    def nothing_waits_for_nothing(self) -> None:
        if not hasattr(self, "held"):
            return
        if self.waiting and self.window == -1:
            assert not self.held
        if self.waiting and self.window == 0:
            assert all(self.held.values())


QueueMachine.TestCase.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=25, deadline=None
)
TestQueueMachine = QueueMachine.TestCase
