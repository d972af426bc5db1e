"""SUBSCRIBE: what it needs, which acknowledgement modes there are, and what they mean for messages
nobody settled."""

from __future__ import annotations

import pytest

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.protocols.conversation import PATIENCE
from brokerproof.harness.protocols.stomp.raw_peer import ERROR, MESSAGE
from brokerproof.suites.steps.queues import (
    INDIVIDUAL,
    bodies,
    collect,
    held,
    left_in,
    numbered,
    publish_all,
    receive,
)
from brokerproof.suites.steps.refusals import bystander, either, refused


@case({"1.0": "STOMP10-SUBSCRIBE-02", "1.1": "STOMP11-SUB-02", "1.2": "STOMP12-SUB-02"})
def test_messages_of_the_destination_arrive(target: Bench, version: str) -> None:
    """After SUBSCRIBE was confirmed, messages sent to the destination on the same and on another
    connection arrive as MESSAGE frames; what was sent to another destination does not."""
    queue, elsewhere = target.destination(), target.destination()
    consumer, producer = target.stomp(version), target.stomp(version)
    consumer.subscribe(queue)
    producer.publish(elsewhere, b"not for us")
    producer.publish(queue, b"from another connection")
    consumer.publish(queue, b"from our own")
    came = bodies(collect(target, consumer, 2))
    target.record_finding(
        target.cited,
        sorted(came) == [b"from another connection", b"from our own"],
        "two messages were sent to the destination and one to another; the subscription got"
        f" {came!r}",
    )


@case(
    {
        "1.0": ("STOMP10-SUBSCRIBE-01",),
        "1.1": ("STOMP11-SUB-01", "STOMP11-SUB-03"),
        "1.2": ("STOMP12-SUB-01", "STOMP12-FH-04", "STOMP12-SUB-03"),
    }
)
def test_a_subscribe_without_a_destination_is_refused(target: Bench, version: str) -> None:
    """SUBSCRIBE comes without the header destination. It must not be confirmed; from 1.1 on the
    answer is an ERROR and the end of the connection. The same frame with a destination is accepted
    before."""
    needed, answered = (
        (target.cited, ()) if version == "1.0" else (target.cited[:-1], target.cited[-1:])
    )
    with bystander(target, version):
        peer = target.stomp(version)
        peer.subscribe(target.destination(), "good")
        refused(
            target,
            peer,
            "SUBSCRIBE",
            {"id": "bad", "ack": "auto"},
            refuses=needed,
            answers=answered,
        )


@case({"1.1": ("STOMP11-SUB-01", "STOMP11-SUB-03"), "1.2": ("STOMP12-SUB-01", "STOMP12-SUB-03")})
def test_a_subscribe_to_an_empty_destination_is_refused(target: Bench, version: str) -> None:
    """The header destination of SUBSCRIBE is there and empty, so it names nothing to listen to. It
    must not be confirmed: the answer is an ERROR and the end of the connection. The same frame with
    a name is accepted before."""
    with bystander(target, version):
        peer, good = target.stomp(version), target.destination()
        peer.subscribe(good, "good")
        fields = (("id", "bad"), ("destination", ""), *good.subscribe_headers)
        refused(
            target, peer, "SUBSCRIBE", fields, refuses=target.cited[:1], answers=target.cited[1:]
        )


@case(
    {
        "1.1": ("STOMP11-SUB-05", "STOMP11-SUB-03"),
        "1.2": ("STOMP12-SUB-05", "STOMP12-FH-04", "STOMP12-SUB-03"),
    }
)
def test_a_subscribe_without_an_id_is_refused(target: Bench, version: str) -> None:
    """From 1.1 on SUBSCRIBE needs an id. Without one the subscription cannot be made: ERROR, and
    the end of the connection. The same frame with an id is accepted before."""
    good, bad = target.destination(), target.destination()
    with bystander(target, version):
        peer = target.stomp(version)
        peer.subscribe(good, "good")
        fields = (("destination", bad.name), *bad.subscribe_headers)
        refused(
            target, peer, "SUBSCRIBE", fields, refuses=target.cited[:-1], answers=target.cited[-1:]
        )


@case({"1.1": ("STOMP11-SUB-05", "STOMP11-SUB-03"), "1.2": ("STOMP12-SUB-06", "STOMP12-SUB-03")})
def test_an_id_in_use_is_refused(target: Bench, version: str) -> None:
    """A second SUBSCRIBE on the connection has an id that the first one still uses. It cannot be
    made: ERROR, and the end of the connection. With an id of its own it is accepted before, and so
    is the same id on another connection."""
    first, second = target.destination(), target.destination()
    with bystander(target, version) as other:
        peer = target.stomp(version)
        peer.subscribe(first, "a")
        peer.subscribe(second, "b")
        other.subscribe(first, "a")
        fields = (("id", "a"), ("destination", second.name), *second.subscribe_headers)
        refused(
            target, peer, "SUBSCRIBE", fields, refuses=target.cited[:1], answers=target.cited[1:]
        )


@case(
    {
        "1.0": ("STOMP10-SUBSCRIBE-04",),
        "1.1": ("STOMP11-SUB-06", "STOMP11-SUB-03"),
        "1.2": ("STOMP12-SUB-07", "STOMP12-SUB-03"),
    }
)
@pytest.mark.parametrize("ack", ["sometimes", "AUTO", "client_individual"])
def test_an_ack_mode_that_does_not_exist_is_refused(target: Bench, version: str, ack: str) -> None:
    """SUBSCRIBE asks for a mode that the version does not list. A server that accepts it leaves the
    client in the belief that its acknowledgements mean something else than they do. The modes that
    exist are accepted before."""
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
        refused(
            target, peer, "SUBSCRIBE", fields, refuses=target.cited[:1], answers=target.cited[1:]
        )


@case(
    {
        "1.0": "STOMP10-SUBSCRIBE-03",
        "1.1": ("STOMP11-SUB-06", "STOMP11-SUB-07"),
        "1.2": ("STOMP12-SUB-07", "STOMP12-SUB-08"),
    }
)
def test_without_an_ack_header_a_message_counts_as_received_when_it_was_sent(
    target: Bench, version: str
) -> None:
    """SUBSCRIBE has no header ack, so the mode is auto. Messages arrive and none is acknowledged;
    the connection goes away. The next consumer of the queue gets none of them."""
    queue, consumer = target.destination(), target.stomp(version)
    consumer.request(
        "SUBSCRIBE", (("id", "0"), ("destination", queue.name), *queue.subscribe_headers)
    )
    sent = numbered(3)
    publish_all(target.stomp(version), queue, sent)
    came = bodies(receive(target, consumer, 3))
    target.control(came == sent, f"{sent!r} was sent and {came!r} came")
    consumer.settle()
    consumer.request("DISCONNECT")
    consumer.leave()
    again = left_in(target, queue, version, 0)
    target.record_finding(
        target.cited, not again, f"messages delivered in mode auto came again: {again!r}"
    )


@case({"1.1": "STOMP11-SUB-07", "1.2": "STOMP12-SUB-08"})
def test_in_mode_auto_messages_keep_coming_without_any_ack(target: Bench, version: str) -> None:
    """A subscription with ack:auto gets two hundred messages of 200 octets and acknowledges none.
    All of them come: the server takes a message as received as soon as it has sent it."""
    queue, consumer = target.destination(), target.stomp(version)
    consumer.subscribe(queue, ack="auto")
    sent = [body.ljust(200, b".") for body in numbered(200)]
    publish_all(target.stomp(version), queue, sent)
    came = bodies(receive(target, consumer, len(sent)))
    target.record_finding(
        target.cited, came == sent, f"{len(sent)} messages were sent, {len(came)} came"
    )


@case({"1.0": "STOMP10-SUBSCRIBE-05", "1.1": "STOMP11-ACK-05", "1.2": "STOMP12-ACK-04"})
@pytest.mark.parametrize("how", [CloseHow.EOF, CloseHow.RESET])
def test_what_was_not_acknowledged_is_not_consumed(
    target: Bench, version: str, how: CloseHow
) -> None:
    """Messages arrive in mode client and none is acknowledged; then the connection fails. They were
    not consumed, so the next consumer of the queue finds them."""
    queue, consumer = target.destination(), target.stomp(version)
    sent = numbered(3)
    publish_all(target.stomp(version), queue, sent)
    held(target, consumer, queue, 3, "client")
    consumer.leave(how)
    again = left_in(target, queue, version, 3)
    target.record_finding(
        target.cited,
        sorted(again) == sent,
        f"{sent!r} was never acknowledged; the next consumer got {again!r}",
    )


@case({"1.1": "STOMP11-SUB-09", "1.2": "STOMP12-SUB-10"})
def test_what_a_lost_client_did_not_acknowledge_goes_to_another(
    target: Bench, version: str
) -> None:
    """Two consumers wait on a queue in mode client. The one that holds the message loses its
    connection without an ACK. The server may hand the message to the other, which was there all the
    time; what it does is recorded."""
    queue, first, second = target.destination(), target.stomp(version), target.stomp(version)
    first.subscribe(queue, ack="client")
    second.subscribe(queue, ack="client")
    target.stomp(version).publish(queue, b"one")
    target.wait_until(
        lambda: any(MESSAGE.accepts(each) for each in (*first.inbox, *second.inbox)),
        within=PATIENCE,
    )
    holder, other = (first, second) if first.inbox else (second, first)
    holder.message(body=b"one")
    holder.leave(CloseHow.RESET)
    came = bodies(receive(target, other, 1))
    target.record_finding(
        target.cited, came == [b"one"], f"the other consumer got {came!r} after the holder was lost"
    )


@case("STOMP10-SUBSCRIBE-06")
def test_a_body_of_subscribe_changes_nothing(target: Bench) -> None:
    """A SUBSCRIBE in 1.0 has a body. It is ignored: the subscription is made as if there were
    none."""
    queue, peer = target.destination(), target.stomp("1.0")
    fields = (("destination", queue.name), *queue.subscribe_headers)
    peer.request("SUBSCRIBE", fields, b"nobody reads this", proves=target.cited)
    peer.publish(queue, b"hello")
    peer.message(body=b"hello", proves=target.cited)


@case("STOMP10-SUBSCRIBE-07")
def test_a_selector_filters(target: Bench) -> None:
    """SUBSCRIBE has selector: colour = 'red'. The server may filter by it: then only the message
    whose header colour is red comes. What it does is recorded."""
    queue, peer = target.destination(), target.stomp("1.0")
    fields = (("destination", queue.name), ("selector", "colour = 'red'"), *queue.subscribe_headers)
    peer.send("SUBSCRIBE", fields)
    producer = target.stomp("1.0")
    producer.publish(queue, b"blue", {"colour": "blue"})
    producer.publish(queue, b"red", {"colour": "red"})
    first = peer.watch_for(either(MESSAGE, ERROR))
    target.record_finding(
        target.cited,
        first is not None and first.body == b"red" and peer.ended is None,
        f"first came {'nothing' if first is None else first.brief()}",
    )


@case({"1.0": "STOMP10-SUBSCRIBE-09", "1.1": "STOMP11-MSG-03", "1.2": "STOMP12-MSG-04"})
def test_a_message_says_which_subscription_it_comes_by(target: Bench, version: str) -> None:
    """One connection has two subscriptions to two destinations. Every MESSAGE carries, in its
    header subscription, the id of the one that it comes by."""
    peer = target.stomp(version)
    queues = {"first": target.destination(), "a second / one": target.destination()}
    for name, queue in queues.items():
        peer.subscribe(queue, name)
    for name, queue in queues.items():
        peer.publish(queue, name.encode())
    came = {each.body.decode(): each.get("subscription") for each in collect(target, peer, 2)}
    target.control(
        came.keys() == queues.keys(),
        f"one message was sent to each of two subscriptions; {len(came)} came",
    )
    target.record_finding(
        target.cited,
        all(name == said for name, said in came.items()),
        f"id and header subscription: {came!r}",
    )
