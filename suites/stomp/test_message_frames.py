"""MESSAGE: the headers it must have, should have, and what they are good for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.protocols.conversation import PATIENCE
from brokerproof.harness.protocols.stomp.raw_peer import ERROR, Destination, frame
from brokerproof.harness.trace.events import FrameReceived
from brokerproof.suites.steps.queues import collect, held, numbered, publish_all
from brokerproof.suites.steps.refusals import either, offend


@case(
    {
        "1.0": ("STOMP10-MESSAGE-01", "STOMP10-MESSAGE-02"),
        "1.1": ("STOMP11-MSG-01", "STOMP11-MSG-02", "STOMP11-MSG-03"),
        "1.2": ("STOMP12-MSG-01", "STOMP12-MSG-03", "STOMP12-MSG-04", "STOMP12-FH-09"),
    },
    needs={"multicast"},
)
@pytest.mark.parametrize("routing", [RoutingType.ANYCAST, RoutingType.MULTICAST])
def test_a_message_has_the_headers_it_needs(
    target: Bench, version: str, routing: RoutingType
) -> None:
    """A message arrives from a queue or a topic, in each mode. It carries destination and
    message-id, and from 1.1 on the subscription it comes by; none of them is empty."""
    wanted = (
        ("destination", "message-id")
        if version == "1.0"
        else ("destination", "message-id", "subscription")
    )
    for ack in ("auto", "client"):
        place, peer = target.destination(routing), target.stomp(version)
        peer.subscribe(place, "s", ack=ack)
        peer.publish(place, b"body")
        message = peer.message(proves=target.cited)
        for requirement, name in zip(target.cited, wanted, strict=False):
            target.record_finding(
                requirement,
                bool(message.get(name)),
                f"{name} is {message.get(name)!r} in mode {ack}",
            )
        target.record_finding(
            target.cited[-1:], all(message.get(name) for name in wanted), message.brief()
        )


@case("STOMP12-MSG-02")
def test_the_destination_is_the_one_that_was_sent_to(target: Bench) -> None:
    """A message sent by STOMP arrives by STOMP. Its destination should be letter for letter that of
    the SEND."""
    for routing in (RoutingType.ANYCAST, RoutingType.MULTICAST):
        if routing.value.lower() not in target.capabilities:
            continue
        place, peer = target.destination(routing), target.stomp("1.2")
        place = replace(place, name=f"{place.name}.MiXeD-007 x")
        peer.subscribe(place)
        peer.publish(place, b"body")
        said = peer.message(proves=target.cited).get("destination")
        target.record_finding(
            target.cited, said == place.name, f"sent to {place.name!r}, MESSAGE says {said!r}"
        )


@case("STOMP12-MSG-02", needs={"routing-fixtures"})
@pytest.mark.parametrize("prefix", ["queue/", "topic/"])
def test_the_prefix_that_the_sender_wrote_is_in_the_destination(target: Bench, prefix: str) -> None:
    """On the acceptor with prefixes a message is sent to a name with one of them. To the broker the
    prefix is no part of the address, but the destination of MESSAGE should be letter for letter
    that of the SEND."""
    peer = target.stomp("1.2", acceptor="prefixes")
    place = Destination(f"{prefix}{target.destination().name}")
    peer.subscribe(place)
    peer.publish(place, b"body")
    said = peer.message(proves=target.cited).get("destination")
    target.record_finding(
        target.cited, said == place.name, f"sent to {place.name!r}, MESSAGE says {said!r}"
    )


@case({"1.0": "STOMP10-MESSAGE-02", "1.1": "STOMP11-MSG-02", "1.2": "STOMP12-MSG-03"})
def test_no_two_messages_have_one_message_id(target: Bench, version: str) -> None:
    """A connection gets sixty messages to be acknowledged, with equal bodies, of two queues and by
    three subscriptions. No two of them have the same message-id."""
    one, two, peer = target.destination(), target.destination(), target.stomp(version)
    for name, queue in (("a", one), ("b", two), ("c", two)):
        peer.subscribe(queue, name, ack="client")
    producer = target.stomp(version)
    for queue in (one, two):
        publish_all(producer, queue, [b"the same"] * 30)
    ids = [each.get("message-id") for each in collect(target, peer, 60)]
    target.control(len(ids) == 60, f"60 messages were sent and {len(ids)} came")
    repeated = sorted({str(each) for each in ids if ids.count(each) > 1})
    target.record_finding(
        target.cited, not repeated, f"of 60 messages {len(set(ids))} ids; repeated: {repeated!r}"
    )


@case({"1.0": "STOMP10-MESSAGE-02", "1.1": "STOMP11-MSG-02", "1.2": "STOMP12-MSG-03"})
def test_a_message_id_that_the_application_chose_makes_no_two_messages_one(
    target: Bench, version: str
) -> None:
    """Two SENDs both have message-id:mine. The header of that name in MESSAGE is the server's, so
    the two messages come with two ids; a server may also refuse to take such a SEND."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue)
    receipt = frame("RECEIPT")
    fields = (("destination", queue.name), *queue.send_headers, ("message-id", "mine"))
    for body in (b"one", b"two"):
        peer.send("SEND", (*fields, ("receipt", peer.next_receipt())), body)
        answer = peer.watch_for(either(receipt, ERROR))
        if answer is None or answer.command == "ERROR":
            target.record_finding(
                target.cited,
                True,
                f"a SEND with message-id was refused: {answer or peer.instead()}",
            )
            return
    ids = [each.get("message-id") for each in collect(target, peer, 2)]
    target.record_finding(
        target.cited,
        len(set(ids)) == 2 and all(ids),
        f"two messages sent with message-id:mine came as {ids!r}",
    )


@case("STOMP12-MSG-05")
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_a_message_to_be_acknowledged_says_how(target: Bench, ack: str) -> None:
    """In the modes with acknowledgement every MESSAGE has a header ack, by which ACK and NACK name
    it. So two messages that are outstanding at a time have two values."""
    queue, peer = target.destination(), target.stomp("1.2")
    publish_all(peer, queue, numbered(5))
    values = [each.get("ack") for each in held(target, peer, queue, 5, ack)]
    target.record_finding(
        target.cited, all(values), f"the header ack of five messages in mode {ack}: {values!r}"
    )
    target.record_finding(
        target.cited,
        len(set(values)) == 5,
        f"five outstanding messages have the ack values {values!r}",
    )


LENGTH = {"1.0": "STOMP10-MESSAGE-03", "1.1": "STOMP11-MSG-04", "1.2": "STOMP12-MSG-06"}


@case(LENGTH)
def test_a_message_has_a_content_length(target: Bench, version: str) -> None:
    """A SEND with content-length and a body arrives as a MESSAGE, which should have the
    content-length of its body."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue)
    target.stomp(version).publish(queue, "schön".encode(), {"content-type": "text/plain"})
    message = peer.message(proves=target.cited)
    length = message.get("content-length")
    target.record_finding(
        target.cited,
        length == "6",
        f"6 octets were sent with content-length:6, MESSAGE says {length!r}",
    )


@case(LENGTH)
def test_a_message_has_a_content_length_although_its_send_had_none(
    target: Bench, version: str
) -> None:
    """A SEND without content-length has a body that ends at the NUL. The MESSAGE should have a
    content-length all the same, and it is the number of octets, not of characters."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue)
    target.stomp(version).request(
        "SEND", (("destination", queue.name), *queue.send_headers), "schön".encode()
    )
    message = peer.message(proves=target.cited)
    length = message.get("content-length")
    target.record_finding(
        target.cited,
        length == "6",
        f"6 octets were sent without content-length, MESSAGE says {length!r}",
    )


@case({"1.1": "STOMP11-MSG-05", "1.2": "STOMP12-MSG-07"})
def test_a_message_has_the_content_type_of_its_send(target: Bench, version: str) -> None:
    """A SEND with a body and a content-type arrives as a MESSAGE, which should have the same
    content-type."""
    for kind in ("text/plain", "application/json;charset=utf-8", "application/octet-stream"):
        queue, peer = target.destination(), target.stomp(version)
        peer.subscribe(queue)
        peer.publish(queue, b"{}", {"content-type": kind})
        said = peer.message(proves=target.cited).get("content-type")
        target.record_finding(
            target.cited, said == kind, f"sent with content-type:{kind}, MESSAGE says {said!r}"
        )


@case({"1.1": "STOMP11-SRV-01", "1.2": "STOMP12-SRV-01"}, needs={"transactions"})
def test_a_server_speaks_in_messages_receipts_and_errors(target: Bench, version: str) -> None:
    """A session of every kind of frame, ended by a mistake. After CONNECTED all that the server
    ever sends are MESSAGE, RECEIPT and ERROR."""
    queue, peer = target.destination(), target.stomp(version)
    publish_all(peer, queue, numbered(4))
    for message in held(target, peer, queue, 4, "client-individual"):
        peer.ack(message, receipt=True)
    peer.settle()
    peer.request("UNSUBSCRIBE", {"id": "0"}, proves=target.cited)
    offend(peer, "SEND", {}, b"no destination")
    target.wait_until(lambda: bool(peer.inbox) or peer.ended is not None, within=PATIENCE)
    said = [
        event.command
        for event in target.events
        if isinstance(event, FrameReceived) and event.conn == peer.conn
    ]
    strange = sorted(set(said[1:]) - {"MESSAGE", "RECEIPT", "ERROR"})
    target.record_finding(
        target.cited,
        not strange,
        f"behind {said[0]} the server sent {', '.join(sorted(set(said[1:])))}",
    )
