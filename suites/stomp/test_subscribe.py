"""SUBSCRIBE: required headers, acknowledgement modes, and the fate of unsettled messages."""

import pytest
from hypothesis import strategies as st

from brokerproof.suites.api import (
    PATIENCE,
    Bench,
    CloseHow,
    RoutingType,
    case,
    either,
    listed,
    over,
    shown,
)
from brokerproof.suites.api.stomp import (
    ERROR,
    MESSAGE,
    Destination,
    Frame,
    HeadersLike,
    StompPeer,
    frame,
)
from brokerproof.suites.steps.queues import (
    INDIVIDUAL,
    bodies,
    collect,
    expected_arrivals,
    expected_remainder,
    held,
    left_in,
    numbered,
    publish_all,
    receive,
)
from brokerproof.suites.steps.refusals import QUIET, bystander, refused

DELIVERED = {"1.0": "STOMP10-SUBSCRIBE-02", "1.1": "STOMP11-SUB-02", "1.2": "STOMP12-SUB-02"}
HEADER_MISSING = "STOMP10-READING-HEADER-01"
FAILED_SUBSCRIBE = {"1.1": "STOMP11-SUB-03", "1.2": "STOMP12-SUB-03"}
NO_ID = {"1.1": "STOMP11-READING-HEADER-01", "1.2": "STOMP12-READING-HEADER-01"}
ID_IN_USE = {"1.1": "STOMP11-READING-ID-01", "1.2": "STOMP12-READING-ID-01"}
UNKNOWN_MODE = {
    "1.0": "STOMP10-READING-MODE-01",
    "1.1": "STOMP11-READING-MODE-01",
    "1.2": "STOMP12-READING-MODE-01",
}
DEFAULT_MODE = {
    "1.0": ("STOMP10-SUBSCRIBE-03",),
    "1.1": ("STOMP11-SUB-06", "STOMP11-SUB-07"),
    "1.2": ("STOMP12-SUB-07", "STOMP12-SUB-08"),
}
MODE_AUTO = {"1.1": "STOMP11-SUB-07", "1.2": "STOMP12-SUB-08"}
UNSETTLED_IS_KEPT = {
    "1.0": "STOMP10-SUBSCRIBE-05",
    "1.1": "STOMP11-ACK-05",
    "1.2": "STOMP12-ACK-04",
}
MAY_GO_TO_ANOTHER = {"1.1": "STOMP11-SUB-09", "1.2": "STOMP12-SUB-10"}
BODY_IGNORED = "STOMP10-SUBSCRIBE-06"
MAY_FILTER = "STOMP10-SUBSCRIBE-07"
SETTLES = {"1.0": "STOMP10-ACK-01", "1.1": "STOMP11-ACK-01", "1.2": "STOMP12-ACK-01"}
PIECES = ("a", "7", "@@", ",", "/", ";", "%2F", ":", "\n", "\\", "é")
"""Parts of ids: delimiters that brokers use in their ids, and escaped characters."""
NAMES_SUBSCRIPTION = {
    "1.0": "STOMP10-SUBSCRIBE-09",
    "1.1": "STOMP11-MSG-03",
    "1.2": "STOMP12-MSG-04",
}


def refused_or_served(
    target: Bench,
    peer: StompPeer,
    to: Destination,
    fields: HeadersLike,
    refuses: str,
    behaviour: str,
) -> None:
    """Send a SUBSCRIBE that a broker should refuse (``refuses``, a READING). If the broker confirms
    the frame but delivers nothing, it failed to create the subscription and owed an ERROR."""
    failed = FAILED_SUBSCRIBE.get(peer.version, ())
    if not refused(
        target, peer, "SUBSCRIBE", fields, refuses=refuses, answers=failed, behaviour=behaviour
    ):
        return
    target.stomp(peer.version).publish(to, b"served")
    message = peer.watch_for(frame("MESSAGE", body=b"served"))
    if message is None and failed:
        words = f"a SUBSCRIBE with {shown(fields)} was confirmed, but nothing was delivered"
        target.record_finding(failed, False, words)


@case(DELIVERED)
def test_messages_of_the_destination_arrive(target: Bench, version: str) -> None:
    """After the RECEIPT of SUBSCRIBE, messages sent to the destination on any connection arrive.
    Messages sent elsewhere do not."""
    queue, elsewhere = target.destination(), target.destination()
    consumer, producer = target.stomp(version), target.stomp(version)
    consumer.subscribe(queue)
    producer.publish(elsewhere, b"not for us")
    producer.publish(queue, b"from another connection")
    consumer.publish(queue, b"from our own")
    received = bodies(collect(target, consumer, 2))
    target.record_finding(
        DELIVERED[version],
        sorted(received) == [b"from another connection", b"from our own"],
        "two messages were sent to the destination and one to another; the subscription got"
        f" {listed(received)}",
        expectation=expected_arrivals(
            consumer, received, [b"from another connection", b"from our own"], "in any order"
        ),
    )


@case({"1.0": HEADER_MISSING}, FAILED_SUBSCRIBE)
def test_a_subscribe_without_a_destination_is_refused(target: Bench, version: str) -> None:
    """SUBSCRIBE without a destination is not confirmed; from 1.1 on it is answered with ERROR and
    the connection closes. The same frame with a destination is accepted first."""
    with bystander(target, version):
        peer = target.stomp(version)
        peer.subscribe(target.destination(), "good")
        refused(
            target,
            peer,
            "SUBSCRIBE",
            {"id": "bad", "ack": "auto"},
            refuses=FAILED_SUBSCRIBE.get(version, HEADER_MISSING),
            answers=FAILED_SUBSCRIBE.get(version, ()),
        )


@case(FAILED_SUBSCRIBE)
def test_a_subscribe_to_an_empty_destination_is_refused(target: Bench, version: str) -> None:
    """SUBSCRIBE with an empty destination, which the grammar allows, is answered with ERROR and a
    close, or it creates a subscription that gets messages or at least can be removed. The same
    frames with a name are accepted first."""
    failed = FAILED_SUBSCRIBE[version]
    with bystander(target, version):
        peer, good = target.stomp(version), target.destination()
        peer.subscribe(good, "good")
        peer.subscribe(target.destination(), "removed")
        peer.request("UNSUBSCRIBE", {"id": "removed"})
        fields = (("id", "bad"), ("destination", ""), *good.subscribe_headers)
        confirmed = refused(
            target,
            peer,
            "SUBSCRIBE",
            fields,
            refuses=(),
            answers=failed,
            behaviour="stomp.subscribe-to-empty",
        )
        if confirmed and not _is_made(target, peer, Destination("", good.send_headers), "bad"):
            detail = f"serves no subscriber, and UNSUBSCRIBE is refused: {peer.instead()}"
            target.record_finding(failed, False, f"a confirmed SUBSCRIBE to an empty name {detail}")


def _is_made(target: Bench, peer: StompPeer, to: Destination, id: str) -> bool:
    """True if a subscription gets messages that are sent to its destination, or can be removed."""
    target.stomp(peer.version).publish(to, b"served", receipt=False)
    if peer.watch_for(frame("MESSAGE", body=b"served"), within=QUIET) is not None:
        return True
    receipt = peer.next_receipt()
    peer.send("UNSUBSCRIBE", {"id": id, "receipt": receipt})
    return peer.watch_for(frame("RECEIPT", {"receipt-id": receipt})) is not None


@case(NO_ID, FAILED_SUBSCRIBE)
def test_a_subscribe_without_an_id_is_refused(target: Bench, version: str) -> None:
    """SUBSCRIBE without an id is answered with ERROR and the connection closes. The same frame with
    an id is accepted first."""
    good, bad = target.destination(), target.destination()
    with bystander(target, version):
        peer = target.stomp(version)
        peer.subscribe(good, "good")
        fields = (("destination", bad.name), *bad.subscribe_headers)
        refused_or_served(target, peer, bad, fields, NO_ID[version], "stomp.subscribe-without-id")


@case(ID_IN_USE, FAILED_SUBSCRIBE)
def test_an_id_in_use_is_refused(target: Bench, version: str) -> None:
    """SUBSCRIBE with an id in use is answered with ERROR and the connection closes. The same id is
    accepted on another connection."""
    first, second, third = target.destination(), target.destination(), target.destination()
    with bystander(target, version) as other:
        peer = target.stomp(version)
        peer.subscribe(first, "a")
        peer.subscribe(second, "b")
        other.subscribe(first, "a")
        fields = (("id", "a"), ("destination", third.name), *third.subscribe_headers)
        refused_or_served(target, peer, third, fields, ID_IN_USE[version], "stomp.id-in-use")


@case(DELIVERED)
@over(
    examples=6,
    always=lambda target: [{"ack": "client-individual", "times": 2, "same": True}],
    ack=st.sampled_from(["auto", "client", "client-individual"]),
    times=st.integers(1, 4),
    same=st.booleans(),
)
def test_an_id_can_be_used_again(
    target: Bench, version: str, ack: str, times: int, same: bool
) -> None:
    """A subscription ends, and its connection reuses the id for the same destination or another.
    Each subscription gets the messages sent to its destination."""
    mode = INDIVIDUAL[version] if ack == "client-individual" else ack
    peer, producer, queue = target.stomp(version), target.stomp(version), target.destination()
    for number in range(times + 1):
        queue = queue if same else target.destination()
        peer.subscribe(queue, "again", ack=mode)
        body = b"for subscription %d" % number
        producer.publish(queue, body)
        message = peer.watch_for(MESSAGE)
        detail = "nothing" if message is None else message.brief()
        target.record_finding(
            DELIVERED[version],
            message is not None and message.body == body,
            f"subscription {number} with the same id got {detail}; {body.decode()!r} was sent",
        )
        if message is None:
            return
        if mode != "auto":
            peer.ack(message)
        peer.request("UNSUBSCRIBE", {"id": "again"})


@case(UNKNOWN_MODE, FAILED_SUBSCRIBE)
@pytest.mark.parametrize("ack", ["sometimes", "AUTO", "client_individual"])
def test_an_ack_mode_that_does_not_exist_is_refused(target: Bench, version: str, ack: str) -> None:
    """SUBSCRIBE with an ack mode that the version does not list is not confirmed; from 1.1 on it is
    answered with ERROR and the connection closes. The listed modes are accepted first."""
    with bystander(target, version):
        peer = target.stomp(version)
        for number, mode in enumerate(["auto", "client", INDIVIDUAL[version]]):
            peer.subscribe(target.destination(), f"good{number}", ack=mode)
        queue = target.destination()
        fields = (
            ("id", "bad"),
            ("destination", queue.name),
            ("ack", ack),
            *queue.subscribe_headers,
        )
        refused_or_served(target, peer, queue, fields, UNKNOWN_MODE[version], "stomp.unknown-mode")


@case(DEFAULT_MODE)
def test_without_an_ack_header_a_message_counts_as_received_when_it_was_sent(
    target: Bench, version: str
) -> None:
    """A subscription without an ack header gets messages, acknowledges none, and its connection
    ends. The next consumer gets none of them."""
    queue, consumer = target.destination(), target.stomp(version)
    consumer.request(
        "SUBSCRIBE", (("id", "0"), ("destination", queue.name), *queue.subscribe_headers)
    )
    sent = numbered(3)
    publish_all(target.stomp(version), queue, sent)
    received = bodies(receive(target, consumer, 3))
    target.control(received == sent, f"{listed(sent)} were sent and {listed(received)} arrived")
    consumer.settle()
    consumer.request("DISCONNECT")
    consumer.close_socket()
    again = left_in(target, queue, version, 0)
    target.record_finding(
        DEFAULT_MODE[version],
        not again,
        f"delivered again after mode auto: {listed(again)}",
        expectation=expected_remainder(()),
    )


@case(MODE_AUTO)
def test_in_mode_auto_messages_keep_coming_without_any_ack(target: Bench, version: str) -> None:
    """A subscription with ack:auto gets two hundred messages of 200 bytes without any ACK."""
    queue, consumer = target.destination(), target.stomp(version)
    consumer.subscribe(queue, ack="auto")
    sent = [body.ljust(200, b".") for body in numbered(200)]
    publish_all(target.stomp(version), queue, sent)
    received = bodies(receive(target, consumer, len(sent)))
    target.record_finding(
        MODE_AUTO[version],
        received == sent,
        f"{len(sent)} messages were sent; {len(received)} arrived",
        expectation=expected_arrivals(consumer, received, sent),
    )


@case(UNSETTLED_IS_KEPT)
@pytest.mark.parametrize("how", [CloseHow.EOF, CloseHow.RESET])
def test_what_was_not_acknowledged_is_not_consumed(
    target: Bench, version: str, how: CloseHow
) -> None:
    """A connection with two client-mode subscriptions to a queue acknowledges nothing and fails.
    The next consumer gets all messages."""
    queue, consumer, producer = target.destination(), target.stomp(version), target.stomp(version)
    sent = numbered(6)
    publish_all(producer, queue, sent[:3])
    held(target, consumer, queue, 3, "client")
    consumer.subscribe(queue, "second", ack="client")
    publish_all(producer, queue, sent[3:])
    receive(target, consumer, 3)
    consumer.close_socket(how)
    again = left_in(target, queue, version, 6)
    if sorted(again) == sent:
        target.record_behaviour(
            "stomp.returned", "in-order" if again == sent else "in-another-order"
        )
    target.record_finding(
        UNSETTLED_IS_KEPT[version],
        sorted(again) == sent,
        f"{listed(sent)} were never acknowledged; the next consumer got {listed(again)}",
        expectation=expected_remainder(sent, "in any order"),
    )


@case({version: (id, DELIVERED[version]) for version, id in MAY_GO_TO_ANOTHER.items()})
def test_what_a_lost_client_did_not_acknowledge_goes_to_another(
    target: Bench, version: str
) -> None:
    """Two consumers wait on a queue in client mode, and the one that holds the message loses its
    connection. The other may get the message, once."""
    queue, first, second = target.destination(), target.stomp(version), target.stomp(version)
    first.subscribe(queue, ack="client")
    second.subscribe(queue, ack="client")
    target.stomp(version).publish(queue, b"one")
    target.wait_until(
        lambda: any(MESSAGE.accepts(received) for received in (*first.inbox, *second.inbox)),
        within=PATIENCE,
    )
    holder, other = (first, second) if first.inbox else (second, first)
    holder.message(body=b"one")
    holder.close_socket(CloseHow.RESET)
    messages = receive(target, other, 1)
    arrived = bodies(messages)
    for message in messages:
        target.record_behaviour("stomp.redelivered", message.get("redelivered") or "no header")
    taken = "next-client" if arrived else "no-client"
    target.record_behaviour("stomp.held-by-a-lost-client", taken)
    detail = f"one message was sent; after its holder was lost, {listed(arrived)} arrived"
    target.record_finding(DELIVERED[version], len(arrived) < 2, detail)
    target.record_finding(
        MAY_GO_TO_ANOTHER[version],
        arrived == [b"one"],
        f"the other consumer got {listed(arrived)} after the holder was lost",
        expectation=expected_arrivals(other, arrived, [b"one"]),
    )


@case(BODY_IGNORED)
def test_a_body_of_subscribe_changes_nothing(target: Bench) -> None:
    """A 1.0 SUBSCRIBE with a body is confirmed, and the subscription gets messages."""
    queue, peer = target.destination(), target.stomp("1.0")
    fields = (("destination", queue.name), *queue.subscribe_headers)
    peer.request("SUBSCRIBE", fields, b"nobody reads this", proves=BODY_IGNORED)
    peer.publish(queue, b"hello")
    peer.message(body=b"hello", proves=BODY_IGNORED)


@case(MAY_FILTER)
def test_a_selector_filters(target: Bench) -> None:
    """SUBSCRIBE with selector:colour = 'red' may filter. If it does, only red messages arrive."""
    queue, peer = target.destination(), target.stomp("1.0")
    fields = (("destination", queue.name), ("selector", "colour = 'red'"), *queue.subscribe_headers)
    peer.send("SUBSCRIBE", fields)
    producer = target.stomp("1.0")
    producer.publish(queue, b"blue", {"colour": "blue"})
    producer.publish(queue, b"red", {"colour": "red"})
    first = peer.watch_for(either(MESSAGE, ERROR))
    if first is not None and MESSAGE.accepts(first):
        target.record_behaviour("stomp.selector", "filters" if first.body == b"red" else "ignores")
    target.record_finding(
        MAY_FILTER,
        first is not None and first.body == b"red" and peer.ended is None,
        f"{'nothing' if first is None else first.brief()} arrived first",
    )


@case(NAMES_SUBSCRIPTION)
def test_a_message_says_which_subscription_it_comes_by(target: Bench, version: str) -> None:
    """One connection has two subscriptions to different destinations, and two to one topic. Every
    MESSAGE has the id of its subscription in the subscription header."""
    peer = target.stomp(version)
    queues = {"first": target.destination(), "a second / one": target.destination()}
    for name, queue in queues.items():
        peer.subscribe(queue, name)
    for name, queue in queues.items():
        peer.publish(queue, name.encode())
    received = {
        message.body.decode(): message.get("subscription") for message in collect(target, peer, 2)
    }
    detail = f"one message was sent to each of two subscriptions; {len(received)} arrived"
    target.control(received.keys() == queues.keys(), detail)
    target.record_finding(
        NAMES_SUBSCRIPTION[version],
        all(name == answer for name, answer in received.items()),
        f"the subscription headers by subscription id are {shown(received)}",
    )
    if "multicast" in target.capabilities:
        topic, names = target.destination(RoutingType.MULTICAST), {"third", "fourth"}
        for name in sorted(names):
            peer.subscribe(topic, name)
        target.stomp(version).publish(topic, b"copied")
        copies = [message.get("subscription") for message in collect(target, peer, 2)]
        if len(copies) == 2:
            words = (
                f"the copies for two subscriptions have the subscription headers {shown(copies)}"
            )
            target.record_finding(NAMES_SUBSCRIPTION[version], set(copies) == names, words)


@case(NAMES_SUBSCRIPTION, SETTLES)
@over(
    examples=5,
    always=lambda target: [{"ids": list(ids)} for ids in (("@@", ",", ";%2F"), ":é", "\n", "\\")],
    ids=st.sampled_from(PIECES).map(lambda id: [id]),
)
def test_a_subscription_may_have_any_id(target: Bench, version: str, ids: list[str]) -> None:
    """One connection has subscriptions with arbitrary ids to several destinations. Every MESSAGE
    has the id of its subscription in the subscription header, and an ACK settles it."""
    if version == "1.0":
        plain = str.maketrans("", "", ":\n\\é")
        ids = [id.translate(plain) for id in ids]
    peer = target.stomp(version)
    queues = {f"<{id}>": target.destination() for id in ids}
    for name, queue in queues.items():
        peer.subscribe(queue, name, ack=INDIVIDUAL[version])
    for name, queue in queues.items():
        target.stomp(version).publish(queue, name.encode())
    received = collect(target, peer, len(queues))
    answers = {message.body.decode(): message.get("subscription") for message in received}
    detail = f"expected a MESSAGE for each of {shown(sorted(queues))}; got, by subscription:"
    detail += f" {shown(answers)}"
    target.require(NAMES_SUBSCRIPTION[version], answers == {name: name for name in queues}, detail)

    def confirmed(message: Frame) -> bool:
        receipt = peer.next_receipt()
        peer.ack(message, {"receipt": receipt})
        return peer.watch_for(frame("RECEIPT", {"receipt-id": receipt})) is not None

    refused = [message.body.decode() for message in received if not confirmed(message)][:1]
    peer.close_socket(CloseHow.RESET)
    left = refused or [name for name in answers if left_in(target, queues[name], version, 0)]
    words = "was refused" if refused else f"was confirmed; arrived again: {shown(left)}"
    detail = f"the ACK for {shown(refused or ids)} {words}"
    target.record_finding(SETTLES[version], not left, detail)
