"""MESSAGE: its required and recommended headers, and the purpose of each."""

from dataclasses import replace

import pytest

from brokerproof.suites.api import PATIENCE, Bench, RoutingType, case, either, shown
from brokerproof.suites.api.stomp import ERROR, Destination, StompPeer, frame
from brokerproof.suites.steps.queues import collect, held, numbered, publish_all, require_held
from brokerproof.suites.steps.refusals import bystander, offend
from brokerproof.suites.steps.traces import frames_received
from brokerproof.suites.stomp.byte_steps import length_in_words

DESTINATION = {"1.0": "STOMP10-MESSAGE-01", "1.1": "STOMP11-MSG-01", "1.2": "STOMP12-MSG-01"}
SUBSCRIPTION = {"1.1": "STOMP11-MSG-03", "1.2": "STOMP12-MSG-04"}
MESSAGE_HEADERS = {"1.2": "STOMP12-FH-09"}
ALL_HEADERS = {"1.0": "STOMP10-MESSAGE-02", "1.1": "STOMP11-MSG-03", "1.2": "STOMP12-FH-09"}
SAME_DESTINATION = "STOMP12-MSG-02"
UNIQUE_MESSAGE_ID = {"1.0": "STOMP10-MESSAGE-02", "1.1": "STOMP11-MSG-02", "1.2": "STOMP12-MSG-03"}
ACK_HEADER = "STOMP12-MSG-05"
CONTENT_TYPE = {"1.1": "STOMP11-MSG-05", "1.2": "STOMP12-MSG-07"}
SERVER_FRAMES = {"1.1": "STOMP11-SRV-01", "1.2": "STOMP12-SRV-01"}
CONNECTED_ONCE = {"1.0": "STOMP10-FRAME-07", **SERVER_FRAMES}
BY_SUBSCRIPTION = {"1.0": "STOMP10-SUBSCRIBE-09", **SUBSCRIPTION}
ACKNOWLEDGED_BY = {"1.2": ACK_HEADER}


@case(DESTINATION, UNIQUE_MESSAGE_ID, SUBSCRIPTION, MESSAGE_HEADERS, needs={"multicast"})
@pytest.mark.parametrize("routing", [RoutingType.ANYCAST, RoutingType.MULTICAST])
def test_a_message_has_the_headers_it_needs(
    target: Bench, version: str, routing: RoutingType
) -> None:
    """A message from a queue or a topic arrives, in each mode, with a non-empty destination,
    message-id and, from 1.1 on, subscription. One scenario: the requirements name one frame's
    headers."""
    headers = {
        "destination": DESTINATION,
        "message-id": UNIQUE_MESSAGE_ID,
        "subscription": SUBSCRIPTION,
    }
    needed = {name: ids[version] for name, ids in headers.items() if version in ids}
    for ack in ("auto", "client"):
        place, peer = target.destination(routing), target.stomp(version)
        peer.subscribe(place, "s", ack=ack)
        peer.publish(place, b"body")
        message = peer.message(proves=target.cited)
        if (version, routing, ack) == ("1.2", RoutingType.ANYCAST, "client"):
            asked = {"receipt", *(name for name, _ in place.send_headers)}
            added = {name for name, _ in message.headers} - asked
            target.record_behaviour("stomp.message-headers", " ".join(sorted(added)))
        for name, requirement in needed.items():
            words = f"{name} is {shown(message.get(name))} in mode {ack}"
            target.record_finding(requirement, bool(message.get(name)), words)
        target.record_finding(
            ALL_HEADERS[version], all(message.get(name) for name in needed), message.brief()
        )


@case(SAME_DESTINATION)
@pytest.mark.parametrize("ending", ["MiXeD-007 x", "é", "%2f"])
def test_the_destination_is_the_one_that_was_sent_to(target: Bench, ending: str) -> None:
    """A MESSAGE has exactly the destination of its SEND."""
    for routing in (RoutingType.ANYCAST, RoutingType.MULTICAST):
        if routing.value.lower() not in target.capabilities:
            continue
        place = target.destination(routing)
        _judge_destination(
            target, target.stomp("1.2"), replace(place, name=f"{place.name}.{ending}")
        )


def _judge_destination(target: Bench, peer: StompPeer, place: Destination) -> None:
    peer.subscribe(place)
    peer.publish(place, b"body")
    value = peer.message(proves=SAME_DESTINATION).get("destination")
    words = f"SEND said destination:{place.name}; MESSAGE says {value!r}"
    target.record_finding(SAME_DESTINATION, value == place.name, words)


@case(SAME_DESTINATION, needs={"routing-fixtures"})
@pytest.mark.parametrize("prefix", ["queue/", "topic/"])
def test_the_prefix_that_the_sender_wrote_is_in_the_destination(target: Bench, prefix: str) -> None:
    """On an acceptor with prefixes a message is sent to a name with a prefix. MESSAGE has the
    destination of the SEND, character by character."""
    peer = target.stomp("1.2", acceptor="prefixes")
    _judge_destination(target, peer, Destination(f"{prefix}{target.destination().name}"))


@case(UNIQUE_MESSAGE_ID, needs={"anycast"})
def test_no_two_messages_have_one_message_id(target: Bench, version: str) -> None:
    """Sixty equal messages arrive over three subscriptions. All their message-ids differ."""
    require_held(target, 30)
    one, two, peer = target.destination(), target.destination(), target.stomp(version)
    for name, queue in (("a", one), ("b", two), ("c", two)):
        peer.subscribe(queue, name, ack="client")
    producer = target.stomp(version)
    for queue in (one, two):
        publish_all(producer, queue, [b"the same"] * 30)
    ids = [message.get("message-id") for message in collect(target, peer, 60)]
    target.control(len(ids) == 60, f"60 messages were sent; {len(ids)} arrived")
    repeated = sorted({str(receipt_id) for receipt_id in ids if ids.count(receipt_id) > 1})
    words = f"60 messages have {len(set(ids))} different ids; repeated: {shown(repeated)}"
    target.record_finding(UNIQUE_MESSAGE_ID[version], not repeated, words)


@case(UNIQUE_MESSAGE_ID)
def test_a_message_id_that_the_application_chose_makes_no_two_messages_one(
    target: Bench, version: str
) -> None:
    """Two SENDs with message-id:mine are refused, or arrive with different message-ids."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue)
    for body in (b"one", b"two"):
        if not _confirmed_with(target, peer, queue, "message-id", body):
            return
    ids = [message.get("message-id") for message in collect(target, peer, 2)]
    if len(ids) == 2:
        target.record_behaviour("stomp.message-id", "keeps" if "mine" in ids else "replaces")
    words = (
        f"two messages sent with message-id:mine have the message-ids {shown(ids)}; expected two"
    )
    target.record_finding(UNIQUE_MESSAGE_ID[version], len(set(ids)) == 2 and all(ids), words)


def _confirmed_with(
    target: Bench, peer: StompPeer, queue: Destination, name: str, body: bytes
) -> bool:
    """Send a message whose header ``name`` is ``mine``; return True if it was confirmed."""
    receipt = ("receipt", peer.next_receipt())
    fields = (("destination", queue.name), *queue.send_headers, (name, "mine"), receipt)
    peer.send("SEND", fields, body)
    answer = peer.watch_for(either(frame("RECEIPT"), ERROR))
    confirmed = answer is not None and answer.command == "RECEIPT"
    if answer is not None and not confirmed:
        target.record_behaviour(f"stomp.{name}", "refuses")
    if not confirmed:
        detail = f"a SEND with {name} was refused: {answer or peer.instead()}"
        target.record_not_applicable(target.cited, detail)
    return confirmed


@case(BY_SUBSCRIPTION, ACKNOWLEDGED_BY)
def test_a_header_of_send_does_not_take_the_place_of_the_servers(
    target: Bench, version: str
) -> None:
    """SEND has a subscription or ack header, which the server sets in MESSAGE. The SEND is refused,
    or the first header of that name in MESSAGE has the server's value. A plain message arrives
    first."""
    for name, ids in (("subscription", BY_SUBSCRIPTION), ("ack", ACKNOWLEDGED_BY)):
        if version not in ids:
            continue
        queue, peer = target.destination(), target.stomp(version)
        peer.subscribe(queue, "s", ack="client")
        peer.publish(queue, b"plain")
        plain = peer.message(body=b"plain")
        target.control(bool(plain.get(name)), f"a message should have the header {name}")
        peer.ack(plain)
        if not _confirmed_with(target, peer, queue, name, b"with it"):
            return
        value = peer.message(body=b"with it").get(name)
        taken = "keeps" if value == "mine" else "replaces"
        target.record_behaviour(f"stomp.{name}", taken)
        detail = f"SEND had {name}:mine; MESSAGE has {name}:{value}"
        target.record_finding(ids[version], value != "mine", detail)


@case(ACK_HEADER)
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_a_message_to_be_acknowledged_says_how(target: Bench, ack: str) -> None:
    """In modes with acknowledgement every MESSAGE has an ack header, and two unsettled messages
    have different values."""
    queue, peer = target.destination(), target.stomp("1.2")
    publish_all(peer, queue, numbered(5))
    values = [message.get("ack") for message in held(target, peer, queue, 5, ack)]
    detail = f"the header ack of five messages in mode {ack}: {shown(values)}"
    target.record_finding(ACK_HEADER, all(values), detail)
    words = f"five outstanding messages have the ack values {shown(values)}"
    target.record_finding(ACK_HEADER, len(set(values)) == 5, words)


LENGTH = {"1.0": "STOMP10-MESSAGE-03", "1.1": "STOMP11-MSG-04", "1.2": "STOMP12-MSG-06"}


@case(LENGTH)
def test_a_message_has_a_content_length(target: Bench, version: str) -> None:
    """SEND with content-length and a body arrives with the content-length of its body."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue)
    target.stomp(version).publish(queue, "schön".encode(), {"content-type": "text/plain"})
    length = peer.message(proves=LENGTH[version]).get("content-length")
    words = f"SEND had 6 bytes and content-length:6; MESSAGE has {length_in_words(length)}"
    target.record_finding(LENGTH[version], length == "6", words)


@case(LENGTH)
def test_a_message_has_a_content_length_although_its_send_had_none(
    target: Bench, version: str
) -> None:
    """SEND without content-length arrives with a content-length that counts bytes."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue)
    target.stomp(version).request(
        "SEND", (("destination", queue.name), *queue.send_headers), "schön".encode()
    )
    length = peer.message(proves=LENGTH[version]).get("content-length")
    if version == "1.2":
        target.record_behaviour("stomp.content-length-where-none", "adds" if length else "omits")
    words = f"SEND had 6 bytes and no content-length; MESSAGE has {length_in_words(length)}"
    target.record_finding(LENGTH[version], length == "6", words)


@case(CONTENT_TYPE)
def test_a_message_has_the_content_type_of_its_send(target: Bench, version: str) -> None:
    """SEND with a body and a content-type arrives as MESSAGE with the same content-type."""
    for kind in ("text/plain", "application/json;charset=utf-8", "application/octet-stream"):
        queue, peer = target.destination(), target.stomp(version)
        peer.subscribe(queue)
        peer.publish(queue, b"{}", {"content-type": kind})
        value = peer.message(proves=CONTENT_TYPE[version]).get("content-type")
        words = f"SEND said content-type:{kind}; MESSAGE says {shown(value)}"
        target.record_finding(CONTENT_TYPE[version], value == kind, words)


@case(CONNECTED_ONCE)
@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
def test_a_second_connect_is_not_answered_with_connected(
    target: Bench, version: str, command: str
) -> None:
    """CONNECT or STOMP is sent again in an open session, where clients may not send it. Whatever
    the server does, no second CONNECTED arrives."""
    with bystander(target, version):
        peer = target.stomp(version)
        peer.send(command, target.connect_headers(version))
        offend(peer, "BEGIN", {"transaction": peer.transaction})
        answer = peer.watch_for(either(frame("CONNECTED"), ERROR, frame("RECEIPT")))
        reactions = {"CONNECTED": "connects", "RECEIPT": "ignores"}
        if command == "CONNECT" and (answer is not None or peer.ended is not None):
            reaction = reactions.get(answer.command if answer else "", "refuses")
            target.record_behaviour("stomp.second-connect", reaction)
        target.record_finding(
            CONNECTED_ONCE[version],
            answer is None or answer.command != "CONNECTED",
            f"a second {command} was answered with {answer.brief() if answer else peer.instead()}",
        )


@case(SERVER_FRAMES, needs={"transactions"})
def test_a_server_speaks_in_messages_receipts_and_errors(target: Bench, version: str) -> None:
    """A session uses every kind of frame and ends with a mistake. After CONNECTED the server sends
    only MESSAGE, RECEIPT and ERROR."""
    queue, peer = target.destination(), target.stomp(version)
    publish_all(peer, queue, numbered(4))
    for message in held(target, peer, queue, 4, "client-individual"):
        peer.ack(message, receipt=True)
    peer.settle()
    peer.request("UNSUBSCRIBE", {"id": "0"}, proves=SERVER_FRAMES[version])
    offend(peer, "SEND", {}, b"no destination")
    target.wait_until(lambda: bool(peer.inbox) or peer.ended is not None, within=PATIENCE)
    answer = [event.command for event in frames_received(target, peer)]
    strange = sorted(set(answer[1:]) - {"MESSAGE", "RECEIPT", "ERROR"})
    words = f"after {answer[0]}, the server sent {', '.join(sorted(set(answer[1:])))}"
    target.record_finding(SERVER_FRAMES[version], not strange, words)
