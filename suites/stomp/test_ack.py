"""ACK: how each version names the message, and which messages each mode settles.

The next consumer of the queue shows which messages were settled, because it receives the others.
"""

import pytest
from hypothesis import strategies as st

from brokerproof.suites.api import PATIENCE, Bench, CloseHow, RoutingType, case, listed, over
from brokerproof.suites.steps.queues import (
    INDIVIDUAL,
    collect,
    expected_remainder,
    held,
    left_in,
    numbered,
    publish_all,
    require_held,
    unsettled_comes_back,
)
from brokerproof.suites.steps.refusals import bystander, error_from, offend, refusal, refused

ACK_HEADERS = {
    "1.0": ("STOMP10-ACK-01",),
    "1.1": ("STOMP11-ACK-01", "STOMP11-ACK-02"),
    "1.2": ("STOMP12-ACK-01", "STOMP12-FH-06"),
}
HEADER_MISSING = {
    "1.0": "STOMP10-READING-HEADER-01",
    "1.1": "STOMP11-READING-HEADER-01",
    "1.2": "STOMP12-READING-HEADER-01",
}
KEPT_WITHOUT_ACK = {"1.0": "STOMP10-SUBSCRIBE-05", "1.1": "STOMP11-ACK-05", "1.2": "STOMP12-ACK-04"}
CUMULATIVE = {"1.1": "STOMP11-SUB-10", "1.2": "STOMP12-SUB-11"}
UNSETTLED_IS_KEPT = {"1.1": "STOMP11-ACK-05", "1.2": "STOMP12-ACK-04"}
COPY_NAMES = {
    "1.1": ("STOMP11-ACK-01", "STOMP11-ACK-02"),
    "1.2": ("STOMP12-ACK-01", "STOMP12-MSG-05"),
}
INDIVIDUAL_ACK = {"1.1": "STOMP11-SUB-11", "1.2": "STOMP12-SUB-13"}
ACK_SCOPE_OPEN = "STOMP10-ACK-03"
ONLY_PROCESSED = {"1.1": "STOMP11-RCPT-01", "1.2": "STOMP12-RCPT-01"}

MOST = 8
"""How many messages a subscription holds in these cases: far below any default window."""


@case(ACK_HEADERS)
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_an_acknowledged_message_is_consumed(target: Bench, version: str, ack: str) -> None:
    """An ACK with the headers that its version requires is confirmed. After a connection loss the
    message is not delivered again."""
    mode = ack if version != "1.0" else "client"
    queue, consumer = target.destination(), target.stomp(version)
    consumer.publish(queue, b"taken")
    message = held(target, consumer, queue, 1, mode)[0]
    consumer.request("ACK", consumer.naming(message), proves=ACK_HEADERS[version])
    consumer.close_socket(CloseHow.RESET)
    again = left_in(target, queue, version, 0)
    target.record_finding(
        ACK_HEADERS[version],
        not again,
        f"after its ACK, {listed(again)} arrived again",
        expectation=expected_remainder(()),
    )


NAMELESS: dict[str, dict[str, tuple[str, ...]]] = {
    "1.0": {"no message-id": ()},
    "1.1": {"no message-id": ("subscription",)},
    "1.2": {"no id": (), "the headers of 1.1 and no id": ("message-id", "subscription")},
}
"""For each version, the headers of ACKs that name no message."""


@case(HEADER_MISSING, KEPT_WITHOUT_ACK)
def test_an_ack_that_does_not_name_its_message_is_not_confirmed(
    target: Bench, version: str
) -> None:
    """An ACK without a header that names its message is not confirmed, and the next consumer gets
    the message. A complete ACK is accepted first."""
    for words, kept in NAMELESS[version].items():
        with bystander(target, version):
            queue, consumer = target.destination(), target.stomp(version)
            publish_all(consumer, queue, numbered(2))
            first, second = held(target, consumer, queue, 2, INDIVIDUAL[version])
            consumer.ack(first, receipt=True)
            target.record_note(f"ACK with {words}")
            named = tuple((name, second[name]) for name in kept)
            refused(target, consumer, "ACK", named, refuses=HEADER_MISSING[version])
            consumer.close_socket(CloseHow.RESET)
            left = left_in(target, queue, version, 1)
            target.record_finding(
                KEPT_WITHOUT_ACK[version],
                second.body in left,
                f"after an ACK with {words} and the loss of the connection, the next consumer got"
                f" {listed(left)}; expected m1",
            )


@case("STOMP11-READING-HEADER-01")
def test_a_1_1_ack_without_its_subscription_is_not_confirmed(target: Bench) -> None:
    """A 1.1 ACK with the message-id but without the required subscription is not confirmed, and the
    next consumer gets the message."""
    version = "1.1"
    with bystander(target, version):
        queue, consumer = target.destination(), target.stomp(version)
        consumer.publish(queue, b"held")
        message = held(target, consumer, queue, 1, INDIVIDUAL[version])[0]
        named = {"message-id": message["message-id"]}
        refused(target, consumer, "ACK", named, refuses="STOMP11-READING-HEADER-01")
        consumer.close_socket(CloseHow.RESET)
        left = left_in(target, queue, version, 1)
        target.record_finding(
            "STOMP11-READING-HEADER-01",
            left == [b"held"],
            "after an ACK without a subscription header and the loss of the connection, the next"
            " consumer got"
            f" {listed(left)}; expected 'held'",
            expectation=expected_remainder([b"held"]),
        )


@case(KEPT_WITHOUT_ACK)
def test_an_ack_for_another_connection_settles_nothing(target: Bench, version: str) -> None:
    """Two connections each hold a message, through subscriptions with the same id, and an ACK on
    the first names the second's message. Whatever the answer, after both connections are lost each
    queue still has its message. Not judged if both messages have the same id."""
    own, theirs = target.destination(), target.destination()
    consumer, other = target.stomp(version), target.stomp(version)
    consumer.publish(own, b"own")
    mine = held(target, consumer, own, 1, INDIVIDUAL[version])[0]
    other.publish(theirs, b"theirs")
    message = held(target, other, theirs, 1, INDIVIDUAL[version])[0]
    if consumer.naming(mine) == consumer.naming(message):  # "an arbitrary value" may repeat there
        target.record_not_applicable(KEPT_WITHOUT_ACK[version], "both messages have the same id")
        return
    offend(consumer, "ACK", consumer.naming(message))
    error_from(consumer)
    for peer in (consumer, other):
        peer.close_socket(CloseHow.RESET)
    left = [left_in(target, queue, version, 1) for queue in (own, theirs)]
    settled = {(True, True): "nothing", (False, True): "own", (True, False): "theirs"}
    if kept := settled.get((bool(left[0]), bool(left[1]))):
        target.record_behaviour("stomp.ack-of-anothers-message", kept)
    target.record_finding(
        KEPT_WITHOUT_ACK[version],
        left == [[b"own"], [b"theirs"]],
        f"after an ACK for another connection's message, the acknowledging connection's queue has"
        f" {listed(left[0])} and the other's has {listed(left[1])}; expected 'own' and 'theirs'",
    )


@case(ONLY_PROCESSED)
@pytest.mark.parametrize("command", ["ACK", "NACK"])
def test_a_message_that_is_settled_is_not_confirmed_and_then_refused(
    target: Bench, version: str, command: str
) -> None:
    """A second ACK or NACK names an acknowledged message. The broker refuses that frame, or
    confirms it without effect: neither an ERROR nor a close follows its RECEIPT."""
    if command == "NACK":
        target.require_capability("nack")
    queue, consumer = target.destination(), target.stomp(version)
    publish_all(consumer, queue, numbered(2))
    message = held(target, consumer, queue, 2, "client-individual")[0]
    consumer.ack(message, receipt=True)
    receipt = offend(consumer, command, consumer.naming(message))
    confirmed = refusal(consumer, receipt) is None
    error = error_from(consumer) if confirmed else None
    fine = not confirmed or (error is None and consumer.ended is None)
    answer = "refused" if not confirmed else "confirmed"
    if command == "ACK":
        stands = "confirms" if fine else "confirms-then-refuses"
        target.record_behaviour("stomp.settled-twice", stands if confirmed else "refuses")
    then = consumer.instead() if error is None else f"got {error.brief()}"
    detail = f"a second {command} for the same message was {answer}, and then {then}"
    target.record_finding(ONLY_PROCESSED[version], fine, detail)


@case(ONLY_PROCESSED, INDIVIDUAL_ACK)
@over(
    examples=3,
    always=lambda target: [{"again": mode} for mode in (None, "client")],
    again=st.sampled_from(["auto", "client", "client-individual"]),
)
def test_an_ack_behind_unsubscribe_is_refused_or_settles(
    target: Bench, version: str, again: str | None
) -> None:
    """A subscription in client-individual mode holds three messages and is removed; a new
    subscription may reuse its id in another mode. An ACK for the last message is refused, or is
    confirmed and consumes only that message: the next consumer gets the first two."""
    queue, consumer = target.destination(), target.stomp(version)
    publish_all(consumer, queue, numbered(3))
    message = held(target, consumer, queue, 3, "client-individual")[-1]
    consumer.request("UNSUBSCRIBE", {"id": "0"})
    if again is not None:
        consumer.subscribe(target.destination(), ack=again)
    receipt = offend(consumer, "ACK", consumer.naming(message))
    confirmed = refusal(consumer, receipt) is None
    consumer.close_socket(CloseHow.RESET)
    left = left_in(target, queue, version, 2 if confirmed else 3)
    vain = message.body in left
    effect = ("confirms-in-vain" if vain else "settles") if confirmed else "refuses"
    if again is None and (confirmed or vain):
        target.record_behaviour("stomp.ack-behind-unsubscribe", effect)
    words = (
        f"an ACK after UNSUBSCRIBE{f' and a SUBSCRIBE in mode {again}' if again else ''}"
        f" was {'confirmed' if confirmed else 'refused'}; the queue then had {listed(left)}"
    )
    target.record_finding(ONLY_PROCESSED[version], not (confirmed and vain), words)
    others = set(numbered(2)) <= set(left)
    if others or unsettled_comes_back(target, version, "client-individual", leaves=True):
        target.record_finding(INDIVIDUAL_ACK[version], others, words)
    else:
        reason = "the broker redelivers nothing that a lost consumer held, acknowledged or not"
        target.record_not_applicable(INDIVIDUAL_ACK[version], reason)


@case(CUMULATIVE, UNSETTLED_IS_KEPT)
@over(
    examples=40,
    always=lambda target: [{"count": 30, "last": 0}, {"count": 30, "last": 29}],
    count=st.integers(1, MOST),
    last=st.integers(0, MOST - 1),
)
def test_in_mode_client_an_ack_covers_what_came_before(
    target: Bench, version: str, count: int, last: int
) -> None:
    """In client mode one of several messages is acknowledged and the connection is lost. The next
    consumer gets exactly the later messages."""
    last %= count
    queue, consumer = target.destination(), target.stomp(version)
    sent = numbered(count)
    publish_all(target.stomp(version), queue, sent)
    messages = held(target, consumer, queue, count, "client")
    consumer.request("ACK", consumer.naming(messages[last]), proves=CUMULATIVE[version])
    consumer.close_socket(CloseHow.RESET)
    left = left_in(target, queue, version, count - last - 1)
    words = f"m{last} of {count} messages was acknowledged; the next consumer got {listed(left)}"
    detail = f"acknowledged messages should not be redelivered: {words}"
    target.control(sent[last] not in left, detail)
    target.record_finding(CUMULATIVE[version], not set(left) & set(sent[:last]), words)
    target.record_finding(UNSETTLED_IS_KEPT[version], set(sent[last + 1 :]) <= set(left), words)


@case(CUMULATIVE, UNSETTLED_IS_KEPT, needs={"anycast"})
def test_an_ack_covers_only_its_own_subscription(target: Bench, version: str) -> None:
    """One connection subscribes to two queues in client mode and acknowledges the last message of
    the second. The second queue is then empty, and the first still has all its messages."""
    require_held(target, 3)
    one, two, consumer = target.destination(), target.destination(), target.stomp(version)
    producer = target.stomp(version)
    publish_all(producer, one, numbered(3, "one"))
    publish_all(producer, two, numbered(3, "two"))
    consumer.subscribe(one, "one", ack="client")
    target.control(
        target.wait_until(lambda: consumer.messages_seen == 3, within=PATIENCE),
        "three messages should arrive",
    )
    consumer.take_messages()
    consumer.subscribe(two, "two", ack="client")
    target.control(
        target.wait_until(lambda: consumer.messages_seen == 6, within=PATIENCE),
        "three more should arrive",
    )
    consumer.ack(consumer.take_messages()[-1], receipt=True)
    consumer.close_socket(CloseHow.RESET)
    left_one, left_two = left_in(target, one, version, 3), left_in(target, two, version, 0)
    target.control(b"two2" not in left_two, "acknowledged messages should not be redelivered")
    scope = {0: "connection", 3: "subscription"}.get(len(left_one))
    if scope and not left_two:
        target.record_behaviour("stomp.scope-of-ack", scope)
    detail = f"{listed(left_two)} remained in the queue of the acknowledged subscription"
    target.record_finding(CUMULATIVE[version], not left_two, detail)
    target.record_finding(
        UNSETTLED_IS_KEPT[version],
        sorted(left_one) == numbered(3, "one"),
        f"{listed(left_one)} remained in the queue of the other subscription",
    )


@case(COPY_NAMES, needs={"multicast"})
def test_copies_of_one_message_are_acknowledged_apart(target: Bench, version: str) -> None:
    """Two subscriptions of one connection each get a copy of a topic's message. The headers that
    name the message differ, and each copy is acknowledged with those of its own MESSAGE."""
    topic, peer = target.destination(RoutingType.MULTICAST), target.stomp(version)
    for name in ("a", "b"):
        peer.subscribe(topic, name, ack="client-individual")
    peer.publish(topic, b"copied")
    copies = collect(target, peer, 2)
    detail = f"one message was sent to two subscriptions; {len(copies)} copies arrived"
    target.control(len(copies) == 2, detail)
    for copy in copies:
        peer.request("ACK", peer.naming(copy), proves=COPY_NAMES[version])
    names = {peer.naming(copy) for copy in copies}
    detail = f"the copies are acknowledged with {', '.join(sorted(map(str, names)))}"
    target.record_finding(COPY_NAMES[version], len(names) == 2, detail)


@case(INDIVIDUAL_ACK, UNSETTLED_IS_KEPT)
@over(
    examples=40,
    always=lambda target: [{"taken": [True] + [False] * 29, "backwards": False}],
    taken=st.lists(st.booleans(), min_size=1, max_size=MOST),
    backwards=st.booleans(),
)
def test_in_mode_client_individual_an_ack_covers_one_message(
    target: Bench, version: str, taken: list[bool], backwards: bool
) -> None:
    """In client-individual mode some messages are acknowledged, in any order, and the connection is
    lost. The next consumer gets exactly the remaining messages."""
    queue, consumer = target.destination(), target.stomp(version)
    sent = numbered(len(taken))
    publish_all(target.stomp(version), queue, sent)
    messages = held(target, consumer, queue, len(taken), "client-individual")
    chosen = [message for message, take in zip(messages, taken, strict=True) if take]
    for message in reversed(chosen) if backwards else chosen:
        consumer.request("ACK", consumer.naming(message), proves=INDIVIDUAL_ACK[version])
    consumer.close_socket(CloseHow.RESET)
    rest = [body for body, take in zip(sent, taken, strict=True) if not take]
    left = left_in(target, queue, version, len(rest))
    words = (
        f"of {len(sent)} messages, acknowledged: {listed(one.body for one in chosen)};"
        f" the next consumer got {listed(left)}"
    )
    covered_one = set(rest) <= set(left)
    if covered_one or unsettled_comes_back(target, version, "client-individual"):
        target.record_finding(INDIVIDUAL_ACK[version], covered_one, words)
    else:
        reason = "the broker redelivers nothing that a lost consumer held, acknowledged or not"
        target.record_not_applicable(INDIVIDUAL_ACK[version], reason)
    target.record_finding(UNSETTLED_IS_KEPT[version], set(rest) <= set(left), words)


@case(ACK_SCOPE_OPEN)
def test_whether_an_ack_of_1_0_covers_what_came_before(target: Bench) -> None:
    """A 1.0 client acknowledges the second of three messages and its connection is lost. The
    specification does not say what such an ACK covers, so the next consumer gets the third message,
    or the first and the third."""
    queue, consumer = target.destination(), target.stomp("1.0")
    sent = numbered(3)
    publish_all(consumer, queue, sent)
    messages = held(target, consumer, queue, 3, "client")
    consumer.ack(messages[1], receipt=True)
    consumer.close_socket(CloseHow.RESET)
    left = left_in(target, queue, "1.0", 1)
    words = (
        "cumulative"
        if left == sent[2:]
        else "individual"
        if sorted(left) == [sent[0], sent[2]]
        else "neither"
    )
    if words != "neither":
        target.record_behaviour("stomp.ack-of-1.0", words)
    detail = f"ACK in 1.0 is {words}: the next consumer got {listed(left)}"
    target.record_finding(ACK_SCOPE_OPEN, words != "neither", detail)
