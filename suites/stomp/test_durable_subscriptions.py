"""Durable subscriptions: how they are named, what they keep, and how they are resumed and deleted.

The manual's chapter describes them for topics: ``client-id`` in CONNECT and a name in SUBSCRIBE, in
one of three headers. It does not say what happens when two consumers request the same subscription
concurrently: one may be refused, or both may share it.
"""

from collections.abc import Iterable, Mapping
from functools import partial

import pytest
from hypothesis import strategies as st

from brokerproof.harness.protocols.stomp.codec import header_list
from brokerproof.suites.api import Bench, CloseHow, RoutingType, case, listed, over, shown
from brokerproof.suites.api.stomp import Destination, HeadersLike, StompPeer, frame
from brokerproof.suites.steps.queues import (
    INDIVIDUAL,
    QUIET,
    SENTINEL,
    bodies,
    collect,
    expected_arrivals,
    numbered,
    publish_all,
    receive,
    subscribed_again,
)
from brokerproof.suites.steps.refusals import bystander, offend, refusal, refused

OUTLIVES_BY_VERSION = dict.fromkeys(("1.0", "1.1", "1.2"), "ARTEMIS-STOMP-durable-1")
FAILED_SUBSCRIBE = {"1.1": "STOMP11-SUB-03", "1.2": "STOMP12-SUB-03"}
SERVED = "STOMP12-SUB-02"
REFUSED_WITH_ERROR = "STOMP12-SUB-03"
FREED_BY_DISCONNECT = "ARTEMIS-STOMP-ttl-1"

NEEDS = {"durable-subscriptions"}
OUTLIVES = "ARTEMIS-STOMP-durable-1"
DELETED = "ARTEMIS-STOMP-durable-2"
PRECEDENCE_UNTIL_2_33 = "ARTEMIS-STOMP-durable-3"
PRECEDENCE_SINCE_2_34 = "ARTEMIS-STOMP-durable-5"
QUEUE = "ARTEMIS-STOMP-durable-4"
SELECTED = "ARTEMIS-STOMP-selector-1"
NAMES = ("durable-subscriber-name", "durable-subscription-name", "activemq.subscriptionName")
"""The naming headers in the order of precedence of the manual until 2.33."""
NAME = NAMES[1]


def client(target: Bench, client_id: str, version: str = "1.2") -> StompPeer:
    return target.stomp(version, headers={"client-id": client_id})


def subscribe(
    peer: StompPeer, topic: Destination, named: HeadersLike, ack: str = "auto", id: str = "0"
) -> None:
    """Subscribe with these naming headers. Control: the SUBSCRIBE is confirmed."""
    peer.subscribe(topic, id, ack=ack, headers=named)


def goes(target: Bench, peer: StompPeer, how: str = "DISCONNECT") -> None:
    """End the connection and give the broker time to notice (another case measures how long it
    takes)."""
    if how == "DISCONNECT":
        peer.request("DISCONNECT")
    peer.close_socket(CloseHow.RESET if how == "RESET" else CloseHow.EOF)
    target.advance(QUIET)


def kept(
    target: Bench,
    client_id: str,
    topic: Destination,
    named: HeadersLike,
    version: str = "1.2",
    *,
    count: int = 0,
) -> list[bytes]:
    """Return the messages that wait in a subscription. The client consumes them and leaves. A
    sentinel message shows that the client is served.

    If fewer than ``count`` arrive before the sentinel, wait for the rest and put them first: the
    broker may be slow to notice that the connection which held them has closed.
    """
    connect = partial(client, target, client_id, version)
    peer = subscribed_again(target, connect, topic, named)
    peer.publish(topic, SENTINEL)
    received: list[bytes] = []
    while SENTINEL not in received:
        received.append(peer.message().body)
    received.pop()
    late = bodies(receive(target, peer, count - len(received)))
    goes(target, peer)
    return late + received


def delete(target: Bench, client_id: str, names: Iterable[str]) -> None:
    """Clean up: leave no subscription on a broker that continues to run."""
    peer = client(target, client_id)
    for name in names:
        peer.request("UNSUBSCRIBE", {"id": "0", NAME: name})
    goes(target, peer)


@case(OUTLIVES_BY_VERSION, needs=NEEDS)
@over(
    examples=25,
    header=st.sampled_from(NAMES),
    before=st.integers(0, 6),
    settled=st.integers(0, 6),
    after=st.integers(0, 6),
    how=st.sampled_from(["DISCONNECT", "EOF", "RESET"]),
)
def test_a_durable_subscription_outlives_its_connection(
    target: Bench, version: str, header: str, before: int, settled: int, after: int, how: str
) -> None:
    """A client with a client-id subscribes under a name, settles some messages and leaves. When it
    returns, it gets, in order, the unsettled messages and those sent in its absence."""
    topic, producer = target.destination(RoutingType.MULTICAST), target.stomp(version)
    who = target.destination().name
    peer = client(target, who, version)
    subscribe(peer, topic, {header: "s"}, INDIVIDUAL[version])
    first, second = numbered(before, "a"), numbered(after, "b")
    publish_all(producer, topic, first)
    received = receive(target, peer, before)
    detail = f"the subscriber got {listed(bodies(received))}; expected {listed(first)}"
    target.control(bodies(received) == first, detail)
    done = min(settled, before)
    for message in received[:done]:
        peer.ack(message, receipt=True)
    goes(target, peer, how)
    publish_all(producer, topic, second)
    expected = first[done:] + second
    delivered = kept(target, who, topic, {header: "s"}, version, count=len(expected))
    detail = f"after {how}, the subscription kept {listed(delivered)}; expected {listed(expected)}"
    target.record_finding(OUTLIVES_BY_VERSION[version], delivered == expected, detail)
    delete(target, who, ["s"])


@case(OUTLIVES, needs=NEEDS)
def test_client_and_name_together_are_the_subscription(target: Bench) -> None:
    """Clients with durable subscriptions, some of which share a name, disconnect before messages
    are sent. Each subscription keeps its own copy of every message; one without a name keeps
    none."""
    topic, producer = target.destination(RoutingType.MULTICAST), target.stomp("1.2")
    one, other = target.destination().name, target.destination().name
    subscriptions = [(one, "s"), (one, "t"), (other, "s")]
    for who, name in subscriptions:
        peer = client(target, who)
        subscribe(peer, topic, {NAME: name})
        goes(target, peer)
    plain = client(target, one)
    subscribe(plain, topic, {})
    goes(target, plain)
    publish_all(producer, topic, numbered(3))
    again = client(target, one)
    subscribe(again, topic, {})
    producer.publish(topic, b"now")
    received = bodies(collect(target, again, 1))
    target.record_finding(
        OUTLIVES,
        received == [b"now"],
        f"a subscription without a name got {listed(received)} when it returned",
        expectation=expected_arrivals(again, received, [b"now"]),
    )
    for who, name in subscriptions:
        delivered = [body for body in kept(target, who, topic, {NAME: name}) if body in numbered(3)]
        target.record_finding(
            OUTLIVES,
            delivered == numbered(3),
            f"client-id:{who} {NAME}:{name} kept {listed(delivered)} of m0, m1, m2",
        )
    delete(target, one, ["s", "t"])
    delete(target, other, ["s"])


@case(OUTLIVES_BY_VERSION, FAILED_SUBSCRIBE, needs=NEEDS)
@pytest.mark.parametrize("header", NAMES)
def test_a_name_without_a_client_id_is_refused(target: Bench, version: str, header: str) -> None:
    """SUBSCRIBE with a subscription name from a client without client-id is not confirmed. From 1.1
    on it is answered with ERROR and the connection closes."""
    topic = target.destination(RoutingType.MULTICAST)
    who = target.destination().name
    fields = (("id", "0"), ("destination", topic.name), *topic.subscribe_headers, (header, "s"))
    with bystander(target, version):
        client(target, who, version).request("SUBSCRIBE", fields)
        refused(
            target,
            target.stomp(version),
            "SUBSCRIBE",
            fields,
            refuses=OUTLIVES_BY_VERSION[version],
            answers=FAILED_SUBSCRIBE.get(version, ()),
            behaviour="stomp.durable-without-client-id",
        )


@case(DELETED, needs=NEEDS)
@over(
    examples=20,
    spoken=st.sampled_from(["1.0", "1.1", "1.2"]),
    header=st.sampled_from(NAMES),
    later=st.booleans(),
    waiting=st.integers(0, 4),
)
def test_unsubscribe_with_the_name_deletes_it(
    target: Bench, spoken: str, header: str, later: bool, waiting: int
) -> None:
    """UNSUBSCRIBE with the name of a durable subscription, on its first or a later connection,
    deletes the subscription: a new subscription of that name gets only later messages."""
    topic, producer = target.destination(RoutingType.MULTICAST), target.stomp(spoken)
    who = target.destination().name
    peer = client(target, who, spoken)
    subscribe(peer, topic, {header: "s"}, INDIVIDUAL[spoken])
    if later:
        goes(target, peer)
        publish_all(producer, topic, numbered(waiting))
        peer = client(target, who, spoken)
    peer.request("UNSUBSCRIBE", {"id": "0", header: "s"}, proves=DELETED)
    publish_all(producer, topic, numbered(2, "between"))
    received = kept(target, who, topic, {header: "s"}, spoken)
    detail = f"a subscription that was deleted kept {listed(received)}"
    target.record_finding(DELETED, not received, detail)
    delete(target, who, ["s"])


@case(OUTLIVES, DELETED, needs=NEEDS)
def test_unsubscribe_without_the_name_keeps_it(target: Bench) -> None:
    """UNSUBSCRIBE with only the id ends the consumer but not the durable subscription, which keeps
    collecting messages. UNSUBSCRIBE with the name then deletes it."""
    topic, producer = target.destination(RoutingType.MULTICAST), target.stomp("1.2")
    who = target.destination().name
    peer = client(target, who)
    subscribe(peer, topic, {NAME: "s"})
    peer.request("UNSUBSCRIBE", {"id": "0"})
    publish_all(producer, topic, numbered(3))
    peer.expect_nothing(for_=QUIET, of=frame("MESSAGE"), proves=OUTLIVES, why="it unsubscribed")
    goes(target, peer)
    received = kept(target, who, topic, {NAME: "s"})
    target.record_finding(
        OUTLIVES,
        received == numbered(3),
        f"after UNSUBSCRIBE without the name, it kept {listed(received)} of m0, m1, m2",
    )
    delete(target, who, ["s"])
    publish_all(producer, topic, numbered(3))
    received = kept(target, who, topic, {NAME: "s"})
    detail = f"after UNSUBSCRIBE with the name, it kept {listed(received)}"
    target.record_finding(DELETED, not received, detail)
    delete(target, who, ["s"])


PAIRS = [(NAMES[0], NAMES[1]), (NAMES[0], NAMES[2]), (NAMES[1], NAMES[2])]
PRECEDENCES = {PRECEDENCE_UNTIL_2_33: NAMES, PRECEDENCE_SINCE_2_34: (NAMES[1], NAMES[0], NAMES[2])}
"""The order of precedence that a release's manual documents, by requirement."""


def judge_precedence(
    target: Bench, command: str, one: str, other: str, counted: str | None
) -> None:
    """For each documented order, record whether the header that took effect (``counted``) is the
    first of ``one`` and ``other`` in that order."""
    for requirement, order in PRECEDENCES.items():
        first = min(one, other, key=order.index)
        target.record_finding(
            requirement,
            counted == first,
            f"of {one} and {other} in {command}, the broker used {counted}; the manual says"
            f" {first}",
        )


@case(PRECEDENCE_UNTIL_2_33, PRECEDENCE_SINCE_2_34, needs=NEEDS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_of_two_names_on_subscribe_the_first_in_precedence_counts(
    target: Bench, one: str, other: str, turned: bool
) -> None:
    """SUBSCRIBE with two of the three naming headers creates the subscription under the name in the
    header that the release's manual lists first."""
    topic, producer = target.destination(RoutingType.MULTICAST), target.stomp("1.2")
    who = target.destination().name
    named = ((one, "first"), (other, "second"))
    peer = client(target, who)
    subscribe(peer, topic, named[::-1] if turned else named)
    goes(target, peer)
    producer.publish(topic, b"m")
    received = {name: kept(target, who, topic, {NAME: name}) for name in ("first", "second")}
    made = [name for name, kept_bodies in received.items() if b"m" in kept_bodies]
    counted = {"first": one, "second": other}.get(" and ".join(made))
    judge_precedence(target, "SUBSCRIBE", one, other, counted)
    delete(target, who, ["first", "second"])


@case(PRECEDENCE_UNTIL_2_33, PRECEDENCE_SINCE_2_34, needs=NEEDS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_of_two_names_on_unsubscribe_the_first_in_precedence_counts(
    target: Bench, one: str, other: str, turned: bool
) -> None:
    """UNSUBSCRIBE with two of the three naming headers deletes the subscription named in the header
    that the release's manual lists first."""
    topic, producer = target.destination(RoutingType.MULTICAST), target.stomp("1.2")
    who = target.destination().name
    peer = client(target, who)
    for name in ("first", "second"):
        subscribe(peer, topic, {NAME: name}, id=name)
    goes(target, peer)
    producer.publish(topic, b"m")
    named = ((one, "first"), (other, "second"))
    peer = client(target, who)
    peer.request("UNSUBSCRIBE", (("id", "0"), *header_list(named[::-1] if turned else named)))
    goes(target, peer)
    received = {name: kept(target, who, topic, {NAME: name}) for name in ("first", "second")}
    left = [name for name, kept_bodies in received.items() if b"m" in kept_bodies]
    counted = {"second": one, "first": other}.get(" and ".join(left))
    judge_precedence(target, "UNSUBSCRIBE", one, other, counted)
    delete(target, who, ["first", "second"])


@case(QUEUE, needs={*NEEDS, "routing-fixtures"})
def test_a_subscription_can_be_configured_beforehand(target: Bench) -> None:
    """The queue configured-client.configured-name is in broker.xml. It keeps messages sent before
    anybody subscribed for the subscription configured-name of configured-client."""
    topic = Destination(
        "configured.durable",
        (("destination-type", "MULTICAST"),),
        (("subscription-type", "MULTICAST"),),
    )
    mark = target.destination().name.encode()
    sent = [mark + body for body in numbered(3)]
    publish_all(target.stomp("1.2"), topic, sent)
    received = [
        body
        for body in kept(target, "configured-client", topic, {NAME: "configured-name"})
        if body in sent
    ]
    detail = f"{listed(sent)} were sent before the subscription existed; it kept {listed(received)}"
    target.record_finding(QUEUE, received == sent, detail)


REFUSED: Mapping[str, tuple[str, str, HeadersLike]] = {
    "the UNSUBSCRIBE of one in use": ("UNSUBSCRIBE", "kept", {}),
    "a SUBSCRIBE to one with a wrong selector": ("SUBSCRIBE", "kept", {"selector": "= ("}),
    "a SUBSCRIBE to a new one with a wrong selector": ("SUBSCRIBE", "new", {"selector": "= ("}),
}
"""Frames that may be refused: command, the subscription it names, and further headers."""


@case(OUTLIVES, needs={*NEEDS, "selectors"})
@pytest.mark.parametrize("which", REFUSED)
def test_a_refused_frame_leaves_durable_subscriptions_as_they_were(
    target: Bench, which: str
) -> None:
    """A client holds a durable subscription, and its second connection sends a frame that names
    that subscription or a new one. If the frame is refused, the first subscription keeps its
    messages, and the new one does not exist: it gets no message sent before its next SUBSCRIBE."""
    topic, producer = target.destination(RoutingType.MULTICAST), target.stomp("1.2")
    who = target.destination().name
    holder, peer = client(target, who), client(target, who)
    window = str(target.profile.parameters.get("prefetch_header", "consumer-window-size"))
    subscribe(holder, topic, {NAME: "kept", window: "1"}, "client")
    command, name, headers = REFUSED[which]
    fields = (("id", "9"), ("destination", topic.name), *topic.subscribe_headers, (NAME, name))
    publish_all(producer, topic, numbered(2))
    is_refused = refusal(peer, offend(peer, command, (*fields, *header_list(headers)))) is not None
    producer.publish(topic, b"m2")
    goes(target, peer, "EOF")
    goes(target, holder, "RESET")
    names = {"kept", name} if is_refused or command == "SUBSCRIBE" else set()
    if is_refused:
        names.add("new")
        due = {"kept": numbered(3), "new": []}
        left = {name: kept(target, who, topic, {NAME: name}, count=len(due[name])) for name in due}
        shares = "; ".join(f"{name} {listed(kept_)}" for name, kept_ in left.items())
        detail = f"{which} was refused; the subscriptions have: {shares}"
        target.record_finding(OUTLIVES, left == due, detail)
    else:
        target.record_not_applicable(OUTLIVES, f"{which} was confirmed")
    delete(target, who, names)


@case(OUTLIVES, needs=NEEDS)
def test_two_consumers_of_one_subscription_get_no_message_twice(target: Bench) -> None:
    """A second connection subscribes to a durable subscription in use. It is refused, or the two
    share the subscription and each message goes to one of them."""
    topic, producer = target.destination(RoutingType.MULTICAST), target.stomp("1.2")
    who = target.destination().name
    first, second = client(target, who), client(target, who)
    subscribe(first, topic, {NAME: "s"})
    receipt = second.next_receipt()
    fields = (
        ("id", "1"),
        ("destination", topic.name),
        *topic.subscribe_headers,
        (NAME, "s"),
        ("receipt", receipt),
    )
    second.send("SUBSCRIBE", fields)
    shared = second.watch_for(frame("RECEIPT", {"receipt-id": receipt})) is not None
    if shared or second.ended is not None or second.inbox:
        target.record_behaviour("stomp.durable-in-use", "shares" if shared else "refuses")
    publish_all(producer, topic, numbered(6))
    target.wait_until(lambda: first.messages_seen + second.messages_seen >= 6, QUIET)
    received = bodies(collect(target, first, 1)) + bodies(second.take_messages())
    target.record_finding(
        OUTLIVES,
        sorted(received) == numbered(6),
        f"a second consumer was {'accepted' if shared else 'refused'}; m0 to m5 were sent;"
        f" {listed(sorted(received))} arrived",
    )


@case(SERVED, REFUSED_WITH_ERROR, needs=NEEDS)
def test_one_name_for_two_topics_is_refused_or_serves_the_second(target: Bench) -> None:
    """A client with a durable subscription to one topic subscribes to another topic under the same
    name. The broker refuses the second subscription, or delivers the second topic's messages. One
    scenario: both are legal."""
    one, other = (
        target.destination(RoutingType.MULTICAST),
        target.destination(RoutingType.MULTICAST),
    )
    who = target.destination().name
    peer = client(target, who)
    subscribe(peer, one, {NAME: "s"})
    goes(target, peer)
    again, producer = client(target, who), target.stomp("1.2")
    receipt = again.next_receipt()
    fields = (
        ("id", "1"),
        ("destination", other.name),
        *other.subscribe_headers,
        (NAME, "s"),
        ("receipt", receipt),
    )
    again.send("SUBSCRIBE", fields)
    confirmed = again.watch_for(frame("RECEIPT", {"receipt-id": receipt})) is not None
    if confirmed:
        producer.publish(other, b"m")
        received = bodies(collect(target, again, 1))
        if received == [b"m"]:
            target.record_behaviour("stomp.durable-of-another-topic", "serves")
        words = (
            f"SUBSCRIBE to {other.name} with the name of a durable subscription to {one.name} was"
            " confirmed"
        )
        target.record_finding(
            SERVED,
            received == [b"m"],
            f"{words}; after a message to {other.name}, the subscriber got {listed(received)}",
            expectation=expected_arrivals(again, received, [b"m"]),
        )
        target.record_not_applicable(REFUSED_WITH_ERROR, f"{words}, so no ERROR is due")
        goes(target, again)
    else:
        answer = again.take(frame("ERROR"))
        if answer is not None:
            target.record_behaviour("stomp.durable-of-another-topic", "refuses")
        closed = target.wait_until(lambda: again.ended is not None, QUIET)
        detail = f"refused with {answer.brief() if answer else 'no ERROR'}; closed: {shown(closed)}"
        target.record_finding(REFUSED_WITH_ERROR, closed, detail)
        target.record_not_applicable(SERVED, "the subscription was refused")
    delete(target, who, ["s"])


@case(FREED_BY_DISCONNECT, OUTLIVES, needs=NEEDS)
@over(examples=15, rounds=st.integers(2, 6), held=st.integers(1, 3))
def test_disconnect_frees_a_durable_subscription_at_once(
    target: Bench, rounds: int, held: int
) -> None:
    """A client disconnects while it holds messages of its durable subscription and reconnects
    immediately, several times. The subscription is free each time; unsettled messages return."""
    topic, producer = target.destination(RoutingType.MULTICAST), target.stomp("1.2")
    who = target.destination().name
    peer = client(target, who)
    subscribe(peer, topic, {NAME: "s"}, "client-individual")
    publish_all(producer, topic, numbered(held))
    for turn in range(rounds):
        received = bodies(receive(target, peer, held))
        target.record_finding(
            (FREED_BY_DISCONNECT, OUTLIVES),
            received == numbered(held),
            f"{listed(received)} arrived on connection {turn + 1}; {held} were held",
            expectation=expected_arrivals(peer, received, numbered(held)),
        )
        peer.request("DISCONNECT")
        again = client(target, who)
        again.subscribe(
            topic,
            ack="client-individual",
            headers={NAME: "s"},
            proves=(FREED_BY_DISCONNECT, OUTLIVES),
        )
        peer.close_socket()
        peer = again
    goes(target, peer)
    delete(target, who, ["s"])


@case(FREED_BY_DISCONNECT, needs=NEEDS)
@over(examples=15, rounds=st.integers(1, 4))
def test_what_was_disconnected_can_be_deleted_at_once(target: Bench, rounds: int) -> None:
    """A client with a durable subscription disconnects, and a new connection immediately deletes
    the subscription. The UNSUBSCRIBE is confirmed."""
    topic = target.destination(RoutingType.MULTICAST)
    who = target.destination().name
    for _ in range(rounds):
        peer = client(target, who)
        subscribe(peer, topic, {NAME: "s"})
        peer.request("DISCONNECT")
        peer.expect_end()
        later = client(target, who)
        later.request("UNSUBSCRIBE", {"id": "0", NAME: "s"}, proves=FREED_BY_DISCONNECT)


@case(SELECTED, needs=NEEDS)
def test_a_durable_subscription_is_taken_up_with_another_selector(target: Bench) -> None:
    """A durable subscription is created with one selector and resumed with another. The second
    SUBSCRIBE is refused, or its selector applies to later messages."""
    topic, producer = target.destination(RoutingType.MULTICAST), target.stomp("1.2")
    who, got = target.destination().name, bodies([])
    for colour in ("red", "blue"):
        peer = client(target, who)
        fields = (("id", "0"), ("destination", topic.name), *topic.subscribe_headers, (NAME, "s"))
        receipt = offend(peer, "SUBSCRIBE", (*fields, ("selector", f"colour = '{colour}'")))
        refused = refusal(peer, receipt) is not None
        if got and refused:
            target.record_behaviour("stomp.durable-with-another-selector", "refuses")
            target.record_not_applicable(SELECTED, "the other selector is refused")
            return
        for sent in ("red", "blue"):
            producer.publish(topic, sent.encode(), {"colour": sent})
        got += bodies(collect(target, peer, 1))
        target.control(got[:1] == [b"red"], f"the subscription to red got {listed(got)}")
        goes(target, peer)
    delete(target, who, ["s"])
    second = {b"red": "keeps-the-first", b"blue": "takes-the-second"}.get(b"".join(got[1:]))
    if second:
        target.record_behaviour("stomp.durable-with-another-selector", second)
    detail = f"a subscription with a selector for red, then for blue, got {listed(got)};"
    detail += " expected 'red', 'blue'"
    target.record_finding(SELECTED, got == [b"red", b"blue"], detail)
