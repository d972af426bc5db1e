"""Messages sent through a queue from one protocol to another."""

from collections.abc import Mapping
from dataclasses import dataclass

from brokerproof.harness.protocols.amqp10 import messages
from brokerproof.suites.amqp10.steps import ready_sender
from brokerproof.suites.api import Bench
from brokerproof.suites.api.amqp091 import Amqp091Peer
from brokerproof.suites.api.amqp10 import Delivery, Node
from brokerproof.suites.api.stomp import Destination, Frame, StompPeer

CONVERSION = {"stomp", "amqp", "crossing", "conversion"}
"""Capabilities that cases on Artemis' conversions need."""


@dataclass(frozen=True)
class Queue:
    """A queue with its name in each protocol."""

    destination: Destination
    node: Node
    name: str = ""
    """The name in AMQP 0-9-1."""


def queue(target: Bench, owner: Amqp091Peer | None = None) -> Queue:
    """Return an unused queue. ``owner`` declares the queue if AMQP 0-9-1 clients are to use it."""
    name = target.fresh_name()
    destination = target.destination(name=name)
    if owner is None:
        return Queue(destination, target.node(name=name), name)
    owner.declare(name, durable=True)
    declared = str(target.profile.parameters["declared_node"])
    return Queue(destination, Node(declared.format(name=name)), name)


def send(
    peer: StompPeer,
    to: Queue,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    counted: bool = True,
) -> None:
    """Send a SEND with a receipt, and with a content-length unless ``counted`` is false."""
    length = (("content-length", str(len(body))),) if counted else ()
    own = tuple((headers or {}).items())
    peer.request(
        "SEND",
        (("destination", to.destination.name), *to.destination.send_headers, *length, *own),
        body,
    )


def post(target: Bench, to: Queue, payload: bytes) -> None:
    """Send these bytes as an AMQP message. Control: the message is accepted."""
    peer = target.amqp()
    link = ready_sender(target, peer, to.node)
    most = peer.endpoint.most_payload
    pieces = [payload[at : at + most] for at in range(0, len(payload), most)] or [b""]
    number = 0
    for at, piece in enumerate(pieces):
        number = peer.transfer(link, piece, more=at < len(pieces) - 1 or None)
    peer.confirmed(link.session, number)


def to_amqp(
    target: Bench,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    counted: bool = True,
) -> Delivery:
    """Send a message over STOMP; return its delivery over AMQP."""
    through = queue(target)
    peer = target.amqp()
    link = peer.receiver(through.node, credit=1)
    peer.settle()
    send(target.stomp(), through, body, headers, counted=counted)
    return peer.delivery(link)


def to_stomp(target: Bench, payload: bytes, version: str = "1.2") -> Frame:
    """Send a message over AMQP; return its MESSAGE over STOMP."""
    through = queue(target)
    peer = target.stomp(version)
    peer.subscribe(through.destination)
    post(target, through, payload)
    return peer.message()


def message(body: object = b"", **sections: object) -> bytes:
    """Return the bytes of an AMQP message; see
    :func:`brokerproof.harness.protocols.amqp10.messages.message`."""
    return messages.message(body, **sections)
