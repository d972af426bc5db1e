"""Exchanges and bindings (3.1.3, class exchange, queue.bind)."""

from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import (
    ARGUMENTS,
    CHANNEL,
    CONNECTION,
    EXCEPTION,
    bind,
    bodies,
    drained,
    exchange_of,
    queue_of,
    record_close,
)
from brokerproof.suites.api import Bench, Target, case, listed, over, shown
from brokerproof.suites.api.amqp091 import method

STANDARD_EXCHANGES = "AMQP091-EXCH-01"
DEFAULT_EXCHANGE = "AMQP091-EXCH-02"
DIRECT_ROUTING = "AMQP091-EXCH-03"
FANOUT_ROUTING = "AMQP091-EXCH-04"
TOPIC_ROUTING = "AMQP091-EXCH-05"
ONE_COPY_PER_QUEUE = "AMQP091-EXCH-11"
EXCHANGE_MISSING = "AMQP091-EXCH-06"
EXCHANGE_REDECLARED = "AMQP091-EXCH-07"
EXCHANGE_NAME_RESERVED = "AMQP091-EXCH-08"
EXCHANGE_TYPE_UNKNOWN = "AMQP091-EXCH-09"
EXCHANGE_IF_UNUSED = "AMQP091-EXCH-10"
BINDING_END_MISSING = "AMQP091-EXCH-12"
UNBIND_STOPS_ROUTING = "AMQP091-EXCH-13"
EXCHANGE_TO_EXCHANGE = "RABBITMQ-AMQP091-E2E-01"


@case(STANDARD_EXCHANGES, needs={"amqp091"})
def test_standard_exchanges_are_there(target: Bench) -> None:
    """A passive declaration of amq.direct, amq.fanout and amq.topic is answered with declare-ok."""
    peer = target.amqp091()
    for kind in ("direct", "fanout", "topic"):
        fields = {"exchange": f"amq.{kind}", "type": kind, "passive": True}
        peer.call("exchange.declare", fields, proves=STANDARD_EXCHANGES)


@case(DEFAULT_EXCHANGE, needs={"amqp091"})
def test_every_queue_can_be_reached_by_its_name(target: Bench) -> None:
    """A message published to the default exchange is routed only to the queue whose name is its
    routing key."""
    peer = target.amqp091()
    queue, other = queue_of(peer), queue_of(peer)
    peer.publish(b"mine", queue)
    peer.publish(b"nobody's", target.fresh_name())
    peer.settle()
    received = bodies(drained(peer, queue)), bodies(drained(peer, other))
    words = f"the two queues have {listed(received[0])} and {listed(received[1])}"
    target.record_finding(DEFAULT_EXCHANGE, received == ([b"mine"], []), words)


WORDS = st.lists(st.sampled_from(["a", "b", "*", "#"]), max_size=3).map(".".join)
KEYS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=4).map(".".join)


def fits(pattern: str, key: str) -> bool:
    """Return True if a topic pattern matches a routing key (3.1.3.3)."""

    def rest(pattern: list[str], words: list[str]) -> bool:
        if not pattern:
            return not words
        if pattern[0] == "#":
            return any(rest(pattern[1:], words[at:]) for at in range(len(words) + 1))
        return bool(words) and pattern[0] in ("*", words[0]) and rest(pattern[1:], words[1:])

    return rest(pattern.split(".") if pattern else [], key.split(".") if key else [])


ROUTING = {"direct": DIRECT_ROUTING, "fanout": FANOUT_ROUTING, "topic": TOPIC_ROUTING}
RULES: dict[str, Callable[[str, str], bool]] = {
    "direct": lambda pattern, key: pattern == key,
    "fanout": lambda pattern, key: True,
    "topic": fits,
}


def due(kind: str, patterns: Iterable[str], keys: list[str]) -> list[bytes]:
    """Return the bodies (numbers) of the messages that bindings with these patterns route."""
    passing = [any(RULES[kind](pattern, key) for pattern in patterns) for key in keys]
    return [b"%d" % at for at, passes in enumerate(passing) if passes]


@case(DIRECT_ROUTING, FANOUT_ROUTING, TOPIC_ROUTING, ONE_COPY_PER_QUEUE, needs={"amqp091"})
@over(
    examples=60,
    always=lambda target: [
        {"kind": "topic", "bindings": ["a.#", "*.b"], "keys": ["a", "a.b.c", "b", "c.b"]},
        {"kind": "topic", "bindings": ["*.*.c", "#.b.#.c"], "keys": ["a.b.c", "b.c", "b", "a.c"]},
        *(
            {"kind": kind, "bindings": ["a", "a.b"], "keys": ["a", "a.b", "b"]}
            for kind in ("direct", "fanout", "topic")
        ),
        *(
            {"kind": kind, "bindings": ["k" * 255], "keys": ["k" * 254, "k" * 255]}
            for kind in ("direct", "topic")
        ),
    ],
    kind=st.sampled_from(["direct", "fanout", "topic", "topic"]),
    bindings=st.lists(WORDS, min_size=1, max_size=4),
    keys=st.lists(KEYS, min_size=1, max_size=5),
)
def test_messages_pass_by_their_keys(
    target: Bench, kind: str, bindings: list[str], keys: list[str]
) -> None:
    """A queue is bound to a direct, fanout or topic exchange by several keys, one of them twice. It
    gets every message whose routing key matches a binding, each once.

    One scenario: each example judges the rule for its type of exchange.
    """
    peer = target.amqp091()
    queue, exchange = queue_of(peer), exchange_of(target, peer, kind)
    for key in [*bindings, bindings[0]]:
        bind(peer, queue, exchange, key)
    for at, key in enumerate(keys):
        peer.publish(b"%d" % at, key, exchange=exchange)
    peer.settle()
    expected = due(kind, bindings, keys)
    received = bodies(drained(peer, queue))
    detail = (
        f"of messages with the keys {shown(keys)}, {listed(received)} arrived; expected"
        f" {listed(expected)}; with a {kind} exchange and the bindings {shown(bindings)}"
    )
    target.record_finding(ROUTING[kind], set(received) == set(expected), detail)
    target.record_finding(ONE_COPY_PER_QUEUE, len(received) == len(set(received)), detail)


@case(EXCHANGE_MISSING, needs={"amqp091"})
def test_an_exchange_that_is_not_there_is_told(target: Bench) -> None:
    """A passive declaration of an unknown exchange closes the channel with 404 NOT_FOUND."""
    peer = target.amqp091()
    peer.send("exchange.declare", {"exchange": target.fresh_name(), "passive": True}, channel=1)
    peer.refused(CHANNEL, 404, proves=EXCHANGE_MISSING)


@case(EXCHANGE_REDECLARED, needs={"amqp091"})
@over(
    examples=5,
    other=lambda target: st.sampled_from(
        ["", "type", "durable", "auto-delete"]
        + ["arguments"] * (ARGUMENTS in target.identity.capabilities)
    ),
)
def test_an_exchange_stays_what_it_was_declared(target: Bench, other: str) -> None:
    """Declaring an exchange again with the same properties is answered with declare-ok. Declaring
    it with a different type, durability or argument closes the channel or the connection."""
    peer = target.amqp091()
    declared = {
        "exchange": target.fresh_name(),
        "type": "direct",
        "durable": False,
        "auto-delete": False,
    }
    peer.call("exchange.declare", declared)
    changes: dict[str, dict[str, Any]] = {
        "": {},
        "type": {"type": "fanout"},
        "durable": {"durable": True},
        "auto-delete": {"auto-delete": True},
        "arguments": {"arguments": {"alternate-exchange": "amq.fanout"}},
    }
    peer.send("exchange.declare", {**declared, **changes[other]}, channel=1)
    if not other or other == "auto-delete":
        # The specification ignores auto-delete for an existing exchange; RabbitMQ compares it.
        answer = peer.watch_for(method("exchange.declare-ok", channel=1))
        refused = (
            peer.take(method("channel.close", channel=1, reply_code=406))
            if other and answer is None
            else None
        )
        target.record_finding(
            EXCHANGE_REDECLARED,
            answer is not None or refused is not None,
            f"declared again with the same properties: {peer.instead()}",
        )
    else:
        closes = [
            scope
            for scope in ("channel", "connection")
            if peer.watch_for(method(f"{scope}.close")) is not None
        ]
        target.record_finding(
            EXCHANGE_REDECLARED, bool(closes), f"declared with another {other}: {peer.instead()}"
        )
    again = target.amqp091()
    again.call("exchange.delete", {"exchange": declared["exchange"]})


@case(EXCHANGE_NAME_RESERVED, EXCHANGE_TYPE_UNKNOWN, needs={"amqp091"})
def test_names_and_types_that_cannot_be(target: Bench) -> None:
    """Declaring a new exchange named amq.* is refused with 403 ACCESS_REFUSED. An unknown type
    closes the connection with 503 COMMAND_INVALID."""
    peer = target.amqp091()
    peer.send(
        "exchange.declare", {"exchange": f"amq.{target.fresh_name()}", "type": "direct"}, channel=1
    )
    peer.refused(EXCEPTION, 403, proves=EXCHANGE_NAME_RESERVED)
    peer = target.amqp091()
    peer.send("exchange.declare", {"exchange": target.fresh_name(), "type": "x-nobodys"}, channel=1)
    record_close(target, peer, "amqp091.unknown-exchange-type")
    peer.refused(CONNECTION, 503, proves=EXCHANGE_TYPE_UNKNOWN)


@case(EXCHANGE_IF_UNUSED, needs={"amqp091"})
def test_an_exchange_in_use_is_not_deleted_if_unused(target: Bench) -> None:
    """exchange.delete with if-unused closes the channel with 406 PRECONDITION_FAILED while the
    exchange has a binding, and is answered with delete-ok once it has none."""
    peer = target.amqp091()
    queue, exchange = queue_of(peer), exchange_of(target, peer, "direct", **{"auto-delete": False})
    bind(peer, queue, exchange, "k")
    peer.send("exchange.delete", {"exchange": exchange, "if-unused": True}, channel=1)
    peer.refused(CHANNEL, 406, proves=EXCHANGE_IF_UNUSED)
    peer.open_channel(1)
    peer.call("queue.unbind", {"queue": queue, "exchange": exchange, "routing-key": "k"})
    peer.call(
        "exchange.delete", {"exchange": exchange, "if-unused": True}, proves=EXCHANGE_IF_UNUSED
    )


def missing_ends(target: Target) -> st.SearchStrategy[str]:
    """Return the ends that may be missing: no queue if the broker creates any queue that is
    named."""
    ends = ["exchange"]
    if "amqp091-undeclared" in target.identity.capabilities:
        ends.insert(0, "queue")
    return st.sampled_from(ends)


@case(BINDING_END_MISSING, needs={"amqp091"})
@over(examples=4, missing=missing_ends)
def test_bindings_need_both_ends(target: Bench, missing: str) -> None:
    """queue.bind with an unknown queue or exchange closes the channel with 404 NOT_FOUND."""
    peer = target.amqp091()
    fields = {"queue": queue_of(peer), "exchange": "amq.direct", "routing-key": target.fresh_name()}
    peer.send("queue.bind", {**fields, missing: target.fresh_name()}, channel=1)
    peer.refused(CHANNEL, 404, proves=BINDING_END_MISSING)


def some_bindings(target: Target) -> st.SearchStrategy[list[tuple[str, int]]]:
    """Draw different bindings of a queue, each a key and an argument (0: none)."""
    most = 2 if ARGUMENTS in target.identity.capabilities else 0
    return st.lists(st.tuples(WORDS, st.integers(0, most)), min_size=1, max_size=4, unique=True)


@case(UNBIND_STOPS_ROUTING, *ROUTING.values(), needs={"amqp091"})
@over(
    examples=20,
    always=lambda target: [
        {"kind": kind, "bindings": bindings, "gone": 1, "keys": ["a", "b"]}
        for kind in ROUTING
        for bindings in ([("a", 0), ("b", 0)], [("a", 0), ("a", 1), ("a", 2)], [("#", 1)])
        if ARGUMENTS in target.identity.capabilities or not bindings[-1][1]
    ],
    kind=st.sampled_from([*ROUTING]),
    bindings=some_bindings,
    gone=st.integers(0, 3),
    keys=st.lists(KEYS, min_size=1, max_size=5),
)
def test_a_binding_that_is_gone_lets_nothing_pass(
    target: Bench, kind: str, bindings: list[tuple[str, int]], gone: int, keys: list[str]
) -> None:
    """A queue is bound to an exchange by different keys, or by one key with different arguments,
    and one of the bindings is removed. After unbind-ok exactly the messages that match the other
    bindings arrive. One scenario: removing too much breaks the rule for the exchange type."""
    peer = target.amqp091()
    queue, exchange = queue_of(peer), exchange_of(target, peer, kind, **{"auto-delete": False})
    for key, argument in bindings:
        bind(peer, queue, exchange, key, arguments={"x-mark": argument} if argument else {})
    key, argument = bindings.pop(gone % len(bindings))
    fields: dict[str, Any] = {"queue": queue, "exchange": exchange, "routing-key": key}
    fields |= {"arguments": {"x-mark": argument}} if argument else {}
    peer.call("queue.unbind", fields, proves=UNBIND_STOPS_ROUTING)
    for at, word in enumerate(keys):
        peer.publish(b"%d" % at, word, exchange=exchange)
    peer.settle()
    received, expected = {*bodies(drained(peer, queue))}, {*due(kind, dict(bindings), keys)}
    peer.call("exchange.delete", {"exchange": exchange})
    words = f"after unbind-ok of {shown((key, argument))}, of messages with the keys {shown(keys)}"
    words += f" {listed(sorted(received))} arrived; expected {listed(sorted(expected))}; with a"
    words += f" {kind} exchange and the bindings {shown(bindings)}"
    target.record_finding(UNBIND_STOPS_ROUTING, received <= expected, words)
    target.record_finding(ROUTING[kind], received >= expected, words)


@case(EXCHANGE_TO_EXCHANGE, needs={"amqp091", "amqp091-exchange-bindings"})
def test_exchanges_can_be_bound_to_each_other(target: Bench) -> None:
    """Two exchanges are bound to each other in a cycle; the first is also bound to a third
    exchange, and the second to a queue. A message published to the first arrives in the queue once,
    and at the third exchange once; after exchange.unbind none arrives."""
    peer = target.amqp091()
    queue, aside = queue_of(peer), queue_of(peer)
    first, second, third = (
        exchange_of(target, peer, "fanout", **{"auto-delete": False}) for _ in range(3)
    )
    bind(peer, aside, third)
    for source, destination in ((first, third), (first, second), (second, first)):
        peer.call(
            "exchange.bind",
            {"source": source, "destination": destination},
            proves=EXCHANGE_TO_EXCHANGE,
        )
    bind(peer, queue, second)
    peer.publish(b"round", "", exchange=first)
    peer.settle()
    received = bodies(drained(peer, queue))
    detail = f"through two bound exchanges, {listed(received)} arrived; expected 'round' once"
    target.record_finding(EXCHANGE_TO_EXCHANGE, received == [b"round"], detail)
    beside = bodies(drained(peer, aside))
    detail = f"through the other of two bindings, {listed(beside)} arrived"
    target.record_finding(EXCHANGE_TO_EXCHANGE, beside == [b"round"], detail)
    peer.call(
        "exchange.unbind", {"source": first, "destination": second}, proves=EXCHANGE_TO_EXCHANGE
    )
    peer.publish(b"no more", "", exchange=first)
    peer.settle()
    received = bodies(drained(peer, queue))
    words = f"through a removed binding, {listed(received)} arrived"
    target.record_finding(EXCHANGE_TO_EXCHANGE, not received, words)
    for name in (first, second, third):
        peer.call("exchange.delete", {"exchange": name})
