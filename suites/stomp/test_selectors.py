"""Selectors: conditions on headers that decide which messages a subscriber gets.

The chapter promises the syntax of the broker's core filters, and the page on filters promises the
syntax of JMS selectors: a subset of SQL-92 conditions with three truth values. Every subscription
here adds ``OR last = 'yes'`` to its condition. So every subscription gets a last message, which
shows that no more will follow, and no case waits for silence.
"""

from typing import Any

import pytest
from hypothesis import strategies as st

from brokerproof.suites.api import (
    PATIENCE,
    Bench,
    Requirements,
    RoutingType,
    case,
    listed,
    over,
    shown,
)
from brokerproof.suites.api.stomp import Destination, StompPeer, frame
from brokerproof.suites.steps import selector_model as model
from brokerproof.suites.steps.queues import bodies, collect, expected_arrivals, numbered, receive
from brokerproof.suites.steps.refusals import bystander, refused

SELECTOR_BY_VERSION = {
    "1.0": "ARTEMIS-STOMP-selector-1",
    "1.1": "ARTEMIS-STOMP-selector-1",
    "1.2": "ARTEMIS-STOMP-selector-1",
}
FAILED_SUBSCRIBE = {"1.1": "STOMP11-SUB-03", "1.2": "STOMP12-SUB-03"}

NEEDS = {"selectors", "core-filters"}
SELECTOR = "ARTEMIS-STOMP-selector-1"
SYNTAX_OF_JMS = "ARTEMIS-FILTER-syntax-1"
STRINGS_CONVERTED = "ARTEMIS-FILTER-convert-1"
NAMES = "ARTEMIS-FILTER-names-1"
LATER_NAMES = "ARTEMIS-FILTER-names-2"
XPATH = "ARTEMIS-FILTER-xpath-1"
BY_VERSION = {"1.0": ("STOMP10-SUBSCRIBE-07", SELECTOR), "1.1": (SELECTOR,), "1.2": (SELECTOR,)}
LAST = b"the last one"


def listen(
    peer: StompPeer, to: Destination, selector: str, id: str = "0", ack: str = "auto"
) -> None:
    """Subscribe to the messages that ``selector`` selects and to the last message."""
    *prefixes, condition = (
        selector.split(":") if selector.startswith(("convert", "hyphenated")) else [selector]
    )
    prefix = "".join(f"{prefix}:" for prefix in prefixes)
    peer.subscribe(to, id, ack=ack, headers={"selector": f"{prefix}({condition}) OR last = 'yes'"})


def end(producer: StompPeer, to: Destination) -> None:
    """Send the last message. It has the lowest priority: messages of higher priority may overtake
    it, but it overtakes none."""
    producer.publish(to, LAST, {"last": "yes", "priority": "0"})


def until_last(peer: StompPeer) -> list[bytes]:
    """Return the bodies received before the last message. Control: the last message arrives."""
    peer.expect(frame("MESSAGE", body=LAST))
    return bodies(peer.take_messages())


def judge_selected(
    target: Bench,
    version: str,
    selector: str,
    sent: list[dict[str, str]],
    expected: list[bytes],
    kind: str = "drawn",
    proves: Requirements = SELECTOR,
) -> None:
    """Send messages with these headers to a topic; judge which of them ``selector`` selects."""
    topic = target.destination(RoutingType.MULTICAST)
    consumer, producer, other = (target.stomp(version) for _ in range(3))
    listen(consumer, topic, selector)
    other.subscribe(topic, headers={"selector": "last = 'yes'"})
    for body, headers in zip(numbered(len(sent)), sent, strict=True):
        producer.publish(topic, body, headers, receipt=False)
    end(producer, topic)
    until_last(other)
    if consumer.watch_for(frame("MESSAGE", body=LAST)) is None:
        # "X OR true" is true: even a broker that cannot evaluate X must not lose the message.
        target.record_finding(
            proves,
            False,
            f"{kind}: ({selector}) OR last = 'yes' did not select the last message, which last ="
            f" 'yes' selected for another subscriber; {consumer.instead()}",
        )
        return
    received = sorted(
        bodies(consumer.take_messages())
    )  # a broker may let messages of higher priority overtake
    wrong = sorted({*received} ^ {*expected})
    first = f" ({wrong[0].decode()} has {shown(sent[int(wrong[0][1:])])})" if wrong else ""
    words = (
        f"{kind}: {selector} should select {listed(expected)}; {listed(received)} arrived{first}"
    )
    target.record_finding(proves, received == expected, words)


def selected(expression: Any, sent: list[dict[str, str]]) -> list[bytes]:
    return [
        body
        for body, headers in zip(numbered(len(sent)), sent, strict=True)
        if expression.value(headers) is True
    ]


SENT = st.lists(model.headers(), min_size=1, max_size=8)


@case(BY_VERSION, needs=NEEDS)
@over(examples=120, expression=model.expressions(), sent=SENT, spelling=st.integers(0, 2))
def test_a_subscriber_gets_what_its_selector_selects(
    target: Bench, version: str, expression: Any, sent: list[dict[str, str]], spelling: int
) -> None:
    """SUBSCRIBE has a condition of any shape: comparisons, IN, LIKE, BETWEEN, IS NULL, arithmetic,
    AND, OR, NOT. Exactly the messages for which it is true arrive, each once."""
    judge_selected(
        target,
        version,
        model.spelled(str(expression), spelling),
        sent,
        selected(expression, sent),
        proves=BY_VERSION[version],
    )


@case(SYNTAX_OF_JMS, needs=NEEDS)
@over(
    examples=40,
    predicate=model.predicates().filter(
        lambda predicate: not isinstance(predicate, model.Constant)
    ),
    sent=SENT,
)
def test_not_speaks_of_the_whole_comparison_behind_it(
    target: Bench, predicate: Any, sent: list[dict[str, str]]
) -> None:
    """NOT precedes a comparison, LIKE, IN, BETWEEN or IS NULL without parentheses and negates the
    whole condition, because NOT binds less tightly."""
    expression = model.Not(predicate, bare=True)
    topic = target.destination(RoutingType.MULTICAST)
    consumer = target.stomp("1.2")
    receipt = consumer.next_receipt()
    fields = {"id": "0", "destination": topic.name, "selector": f"{expression}", "receipt": receipt}
    consumer.send("SUBSCRIBE", (*fields.items(), *topic.subscribe_headers))
    answer = consumer.watch_for(frame("RECEIPT", {"receipt-id": receipt}))
    if answer is None:
        detail = f"NOT without parentheses: {expression} was refused; {consumer.instead()}"
        target.record_finding(SYNTAX_OF_JMS, False, detail)
        return
    kind, expected = "NOT without parentheses", selected(expression, sent)
    judge_selected(target, "1.2", str(expression), sent, expected, kind, SYNTAX_OF_JMS)


@case(SYNTAX_OF_JMS, needs=NEEDS)
@pytest.mark.parametrize(
    "condition",
    [
        "'x' <> absent",
        "NOT ('x' = absent)",
        "NOT (color = absent)",
        "absent = missing",
        "3 <> absent",
    ],
)
def test_what_is_compared_with_nothing_is_unknown_on_either_side(
    target: Bench, condition: str
) -> None:
    """If a header on the right side or on both sides of a comparison is missing, neither the
    comparison nor its opposite selects the message."""
    sent = [
        {"color": "red"},
        {"color": "red", "absent": "y"},
        {"color": "red", "absent": "y", "missing": "y"},
    ]
    there = {
        "absent = missing": [b"m2"], "3 <> absent": [],
    }.get(condition, [b"m1", b"m2"])  # fmt: skip
    if condition == "3 <> absent":  # <> between a number and a string is not judged
        sent = sent[:1]
    kind = "comparison with a missing header"
    judge_selected(target, "1.2", condition, sent, there, kind, SYNTAX_OF_JMS)


@case(SELECTOR, needs=NEEDS)
@over(examples=25, conditions=st.lists(model.expressions(), min_size=2, max_size=4), sent=SENT)
def test_each_subscription_selects_for_itself(
    target: Bench, conditions: list[Any], sent: list[dict[str, str]]
) -> None:
    """One connection subscribes to a topic several times with different selectors. Each
    subscription gets the messages that its own selector selects."""
    topic = target.destination(RoutingType.MULTICAST)
    consumer, producer = target.stomp("1.2"), target.stomp("1.2")
    for number, condition in enumerate(conditions):
        listen(consumer, topic, str(condition), f"s{number}")
    for body, headers in zip(numbered(len(sent)), sent, strict=True):
        producer.publish(topic, body, headers, receipt=False)
    end(producer, topic)
    frames = [
        consumer.expect(frame("MESSAGE", {"subscription": f"s{number}"}, body=LAST))
        for number in range(len(conditions))
    ]
    target.control(len(frames) == len(conditions), "each subscription should get the last message")
    messages = consumer.take_messages()
    for number, condition in enumerate(conditions):
        answered = sorted(
            message.body for message in messages if message["subscription"] == f"s{number}"
        )
        expected = selected(condition, sent)
        words = f"{condition} should select {listed(expected)}; {listed(answered)} arrived"
        target.record_finding(SELECTOR, answered == expected, words)


# --- names and values -----------------------------------------------------------------------------


@case(NAMES, needs=NEEDS)
@pytest.mark.parametrize(
    ("condition", "headers", "others"),
    [
        ("AMQPriority = 7", {"priority": "7"}, {"priority": "8"}),
        ("AMQPriority = 4", {}, {"priority": "0"}),
        ("AMQPriority BETWEEN 0 AND 9", {"priority": "9"}, None),
        ("AMQDurable = 'DURABLE'", {"persistent": "true"}, {}),
        ("AMQDurable = 'NON_DURABLE'", {"persistent": "false"}, {"persistent": "true"}),
        ("AMQExpiration = 0", {}, {"expires": "9000000000000"}),
        (
            "AMQExpiration = 9000000000001",
            {"expires": "9000000000001"},
            {"expires": "9000000000000"},
        ),
        ("AMQTimestamp >= 0 AND AMQTimestamp < 9000000000000", {}, None),
    ],
)
def test_the_brokers_own_names_are_known(
    target: Bench, condition: str, headers: dict[str, str], others: dict[str, str] | None
) -> None:
    """A selector names a property of the broker: priority, durability, expiration or
    timestamp. Only the message that matches arrives."""
    sent = [headers] if others is None else [others, headers, others]
    expected = [b"m0" if others is None else b"m1"]
    judge_selected(target, "1.2", condition, sent, expected, "name of the broker", NAMES)


@case(LATER_NAMES, needs=NEEDS)
@pytest.mark.parametrize(
    ("condition", "headers", "other"),
    [
        ("AMQGroupID = 'g'", {"JMSXGroupID": "g"}, {"JMSXGroupID": "h"}),
        ("AMQUserID IS NULL", {}, {}),
    ],
)
def test_the_names_of_group_and_user_id_are_known(
    target: Bench, condition: str, headers: dict[str, str], other: dict[str, str]
) -> None:
    """A selector names the group or the user id. Only the messages that match arrive."""
    expected = [b"m0", b"m1"] if other == headers else [b"m1"]
    kind = "name of the broker"
    judge_selected(target, "1.2", condition, [other, headers], expected, kind, LATER_NAMES)


@case(NAMES, needs=NEEDS)
@over(examples=25, size=st.sampled_from([1, 100, 5000, 20_000]))
def test_the_size_of_a_message_is_known(target: Bench, size: int) -> None:
    """A selector compares AMQSize. "At least the size of the body" selects a message; "more than
    twice that size plus ten thousand bytes" does not."""
    topic = target.destination(RoutingType.MULTICAST)
    consumer, producer = target.stomp("1.2"), target.stomp("1.2")
    listen(consumer, topic, f"AMQSize >= {size}", "fits")
    listen(consumer, topic, f"AMQSize > {10_000 + 2 * size}", "larger")
    producer.publish(topic, b"." * size, receipt=False)
    end(producer, topic)
    for name in ("fits", "larger"):
        consumer.expect(frame("MESSAGE", {"subscription": name}, body=LAST))
    received = [message["subscription"] for message in consumer.take_messages()]
    detail = f"a body of {size} bytes was selected by {listed(received)}; expected 'fits'"
    target.record_finding(NAMES, received == ["fits"], detail)


@case(LATER_NAMES, needs=NEEDS)
def test_the_address_is_known(target: Bench) -> None:
    """A selector compares AMQAddress: it selects the messages sent to that address."""
    topic = target.destination(RoutingType.MULTICAST)
    consumer, producer = target.stomp("1.2"), target.stomp("1.2")
    listen(consumer, topic, f"AMQAddress = '{topic.name}'", "this")
    listen(consumer, topic, f"AMQAddress <> '{topic.name}'", "another")
    producer.publish(topic, b"m", receipt=False)
    end(producer, topic)
    for name in ("this", "another"):
        consumer.expect(frame("MESSAGE", {"subscription": name}, body=LAST))
    received = [message["subscription"] for message in consumer.take_messages()]
    detail = f"a message to {topic.name} was selected by {listed(received)}"
    target.record_finding(LATER_NAMES, received == ["this"], detail)


@case(SELECTOR, needs=NEEDS)
@over(
    examples=30,
    name=st.text("abXY019._- /+%'", min_size=1, max_size=12).map(lambda text: f"k{text}k"),
)
def test_a_name_in_quotation_marks_may_have_any_characters(target: Bench, name: str) -> None:
    """A selector has a quoted header name that is no identifier. It selects by that header."""
    judge_selected(
        target,
        "1.2",
        f"\"{name}\" = 'v'",
        [{name: "w"}, {name: "v"}, {name + "x": "v"}],
        [b"m1"],
        "quoted",
    )


@case(SELECTOR, needs=NEEDS)
def test_without_quotation_marks_a_hyphen_is_a_sign(target: Bench) -> None:
    """In a selector, foo-bar without quotation marks means foo minus bar, not a header."""
    judge_selected(target, "1.2", "foo-bar = '0'", [{"foo-bar": "0"}], [], "hyphen")


@case(STRINGS_CONVERTED, needs=NEEDS)
@over(
    examples=30,
    always=lambda target: [{"age": size, "bound": 18} for size in ("17", "18", "19")],
    age=st.sampled_from(["21", "18", "19", "9", "100", "-5", "07"]),
    bound=st.sampled_from([18, 19, 20]),
)
def test_a_string_is_no_number_unless_the_selector_says_so(
    target: Bench, age: str, bound: int
) -> None:
    """A selector compares a header with a number. No such comparison is true unless the selector
    begins with convert_string_expressions:."""
    sent = [{"age": age}]
    signs = (
        *((">", int(age) > bound), ("<=", int(age) <= bound), ("=", int(age) == bound)),
        *(("<", int(age) < bound), (">=", int(age) >= bound)),
    )
    for sign, holds in signs:
        condition = f"age {sign} {bound}"
        judge_selected(
            target,
            "1.2",
            condition,
            sent,
            [],
            "no conversion to a number",
            proves=STRINGS_CONVERTED,
        )
        expected, selector = [b"m0"] if holds else [], f"convert_string_expressions:{condition}"
        judge_selected(
            target,
            "1.2",
            selector,
            sent,
            expected,
            "conversion to a number",
            proves=STRINGS_CONVERTED,
        )


@case(STRINGS_CONVERTED, needs=NEEDS)
@pytest.mark.parametrize(
    "condition",
    [
        "half > 1",
        "half < 2",
        "half BETWEEN 1 AND 2",
        "age + 1 = 22",
        "-age = -21",
        "1 + age = 22",
        "age * 2 > 41.5",
    ],
)
def test_a_string_is_read_as_the_number_that_fits(target: Bench, condition: str) -> None:
    """With convert_string_expressions:, a header is read as a number on either side of an operator:
    1.5 is between 1 and 2, and 21 and 1 are 22."""
    sent = [{"half": "1.5", "age": "21"}]
    selector = f"convert_string_expressions:{condition}"
    judge_selected(
        target, "1.2", selector, sent, [b"m0"], "conversion to a number", proves=STRINGS_CONVERTED
    )


@case(XPATH, needs=NEEDS)
def test_xpath_looks_into_the_body(target: Bench) -> None:
    """A selector XPATH '…' selects exactly the XML bodies for which the expression is true."""
    topic = target.destination(RoutingType.MULTICAST)
    consumer, producer = target.stomp("1.2"), target.stomp("1.2")
    listen(consumer, topic, "XPATH '//item[@price > 2]'")
    for body in (
        b"<order><item price='3'/></order>",
        b"<order><item price='1'/></order>",
        b"no XML",
    ):
        producer.send(
            "SEND", (("destination", topic.name), *topic.send_headers), body
        )  # no content-length: text
    end(producer, topic)
    received = until_last(consumer)
    detail = f"of three bodies, {listed(received)} arrived; expected the item of price 3"
    target.record_finding(XPATH, received == [b"<order><item price='3'/></order>"], detail)


# --- queues ---------------------------------------------------------------------------------------


@case(SELECTOR, needs=NEEDS)
@over(
    examples=30,
    colors=st.lists(st.sampled_from("abcd"), min_size=1, max_size=20).map("".join),
    selected=st.lists(st.sampled_from(["a", "b", "ab", "cd"]), min_size=1, max_size=3),
    early=st.booleans(),
)
def test_a_queue_keeps_what_nobody_selects(
    target: Bench, colors: str, selected: list[str], early: bool
) -> None:
    """Consumers with selectors share a queue. Each gets the messages it selects, in order and once;
    the others remain, in order, for a consumer without a selector. One scenario: they can be
    checked only after the selective consumers."""
    queue, producer = target.destination(), target.stomp("1.2")
    consumers = [target.stomp("1.2") for _ in selected]
    selectors = [f"color IN ({', '.join(repr(color) for color in some)})" for some in selected]

    def attach() -> None:
        for peer, selector in zip(consumers, selectors, strict=True):
            peer.subscribe(queue, headers={"selector": selector})

    if early:
        attach()
    for body, color in zip(numbered(len(colors)), colors, strict=True):
        producer.publish(queue, body, {"color": color})
    if not early:
        attach()
    sent = dict(zip(numbered(len(colors)), colors, strict=True))
    meant = [body for body, color in sent.items() if any(color in some for some in selected)]
    left = [body for body in sent if body not in meant]
    target.wait_until(
        lambda: sum(consumer.messages_seen for consumer in consumers) >= len(meant), within=PATIENCE
    )
    shares = [bodies(consumer.take_messages()) for consumer in consumers]
    for some, received in zip(selected, shares, strict=True):
        foreign = [body for body in received if sent.get(body, "?") not in some]
        words = f"a consumer of {some} got {listed(foreign)} of other colors"
        target.record_finding(SELECTOR, not foreign, words)
        target.record_finding(
            SELECTOR,
            received == sorted(received, key=list(sent).index),
            f"a consumer that selects {some} got {listed(received)}; expected the order of sending",
        )
    together = [body for received in shares for body in received]
    target.record_finding(
        SELECTOR,
        sorted(together) == sorted(meant),
        f"the colors {colors} were sent, {', '.join(selected)} are selected:"
        f" {listed(sorted(together))} arrived; expected {listed(meant)}, each once",
    )
    heir = target.stomp("1.2")
    heir.subscribe(queue)
    producer.publish(queue, LAST, {"color": "z"})
    received = bodies(collect(target, heir, len(left) + 1))
    target.record_finding(
        SELECTOR,
        received == [*left, LAST],
        f"no consumer selected {listed(left)}; a consumer without selector got {listed(received)}",
        expectation=expected_arrivals(heir, received, [*left, LAST]),
    )


@case(SELECTOR, needs=NEEDS)
@over(examples=15, count=st.integers(1, 8), held=st.integers(1, 8), lost=st.booleans())
def test_what_a_selective_consumer_held_comes_back_to_its_place(
    target: Bench, count: int, held: int, lost: bool
) -> None:
    """A consumer with a selector leaves with unsettled messages. The next consumer with that
    selector gets them all, oldest first, and the unselected messages keep their order."""
    queue, producer, first = target.destination(), target.stomp("1.2"), target.stomp("1.2")
    first.subscribe(queue, ack="client-individual", headers={"selector": "color = 'red'"})
    reds, blues = numbered(count, "r"), numbered(count, "b")
    for red, blue in zip(reds, blues, strict=True):
        producer.publish(queue, blue, {"color": "blue"}, receipt=False)
        producer.publish(queue, red, {"color": "red"})
    received = receive(target, first, count)
    detail = f"the first consumer got {listed(bodies(received))}; expected {listed(reds)}"
    target.control(bodies(received) == reds, detail)
    for message in received[held:]:
        first.ack(message, receipt=True)
    expected = reds[:held]
    if lost:
        first.close_socket()
    else:
        first.request("DISCONNECT")
    second = target.stomp("1.2")
    second.subscribe(queue, headers={"selector": "color = 'red'"})
    again = bodies(receive(target, second, len(expected)))
    target.record_finding(
        SELECTOR,
        again == expected,
        f"{listed(expected)} were held and given back; {listed(again)} arrived",
        expectation=expected_arrivals(second, again, expected),
    )
    third = target.stomp("1.2")
    third.subscribe(queue)
    rest = bodies(collect(target, third, count))
    target.record_finding(
        SELECTOR,
        rest == blues,
        f"{listed(blues)} were never selected; {listed(rest)} remained in the queue",
        expectation=expected_arrivals(third, rest, blues),
    )


SIGNS = "x^$*+?()[]{}|#&-\\y"
LIKE = {"dot": ("a.c", 0), "signs": (SIGNS, 2), "percent": ("p%q", 3), "underscore": ("p_q", 3)}
"""Patterns, and the message among four that each one selects."""


@case(SELECTOR, needs=NEEDS)
@pytest.mark.parametrize("pattern", LIKE)
def test_two_characters_of_like_stand_for_others(target: Bench, pattern: str) -> None:
    """In LIKE, % stands for any characters and _ for any single one, even an end of line. Every
    other character, whatever it means in regular expressions, stands for itself."""
    sent = [{"color": text} for text in ("a.c", "abc", SIGNS, "p\nq")]
    text, selects = LIKE[pattern]
    judge_selected(target, "1.2", f"color LIKE '{text}'", sent, numbered(4)[selects:][:1])


# --- invalid selectors ----------------------------------------------------------------------------


@case(SELECTOR_BY_VERSION, FAILED_SUBSCRIBE, needs=NEEDS)
@pytest.mark.parametrize(
    "condition",
    ["color =", "= 'red'", "color == 'red'", "color = 'red", "(color = 'red'", "color IN ('red' 'blue')", "color LIKE red",  # noqa: E501
     "color 'red'", "a.b = 'red'", "color AND AND kind", "1 + 1", "'red'", "color IN ()", "AMQPriority BETWEEN 1", "!",  # noqa: E501
     "color = 'red' kind", "color = 'red')", "color IS NULL 'red'", "color = 'red' color = 'red'"],
)  # fmt: skip
def test_what_is_no_selector_is_refused(target: Bench, version: str, condition: str) -> None:
    """SUBSCRIBE whose selector is not a condition is not confirmed; from 1.1 on it is answered with
    ERROR and the connection closes. A valid selector is confirmed first."""
    with bystander(target, version):
        peer = target.stomp(version)
        good, bad = (
            target.destination(RoutingType.MULTICAST),
            target.destination(RoutingType.MULTICAST),
        )
        peer.subscribe(good, "good", headers={"selector": "color = 'red'"})
        fields = (
            ("id", "bad"),
            ("destination", bad.name),
            ("selector", condition),
            *bad.subscribe_headers,
        )
        refused(
            target,
            peer,
            "SUBSCRIBE",
            fields,
            refuses=SELECTOR_BY_VERSION[version],
            answers=FAILED_SUBSCRIBE.get(version, ()),
        )
