"""A session captured by tcpdump is judged like the harness's own recording, with the same frames
and verdicts.

These tests need tcpdump and the right to capture, so they are not collected by default: name the
file, or run ``tox -e captures``. With ``BROKERPROOF_CAPTURES=FOLDER`` the captures stay there.
"""

from typing import TypeGuard

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case
from brokerproof.harness.clients.client_event import event_named
from brokerproof.harness.model.time import ms
from brokerproof.harness.trace import stamp
from brokerproof.harness.trace.events import Event, FrameReceived, HeartBeatReceived
from brokerproof.suites.scale.tcpdump import Capture, captured, keep, of_family, spoken, verdicts

COUNT = 6


def agree(target: Bench, capture: Capture) -> None:
    """Check that both recordings contain the same frames and get the same verdicts."""
    live, passive = spoken(capture.live), spoken(capture.passive)
    detail = f"{len(live)} connections were recorded, {len(passive)} captured"
    target.control(len(live) == len(passive), detail)
    for ours, theirs in zip(live, passive, strict=True):
        target.control(ours == theirs, f"recorded and captured: {_first_difference(ours, theirs)}")
    target.control(bool(live), "frames crossed the wire")
    known = of_family(target)
    keep(capture, known)
    one, other = verdicts(capture.live, known), verdicts(capture.passive, known)
    target.control(one == other, f"the recording is judged {one}, the capture {other}")


def _first_difference(ours: list[tuple[object, ...]], theirs: list[tuple[object, ...]]) -> str:
    pairs = (f"{one} and {other}" for one, other in zip(ours, theirs, strict=False) if one != other)
    return next(pairs, f"{len(ours)} and {len(theirs)} frames")


def stamped(number: int) -> bytes:
    """Return a message that identifies its sender."""
    return stamp.stamp(1, number) + b"." * (number * 30)


@case("STOMP12-RCPT-01", "STOMP12-HB-07", needs={"stomp", "sockets"})
def test_stomp_py(target: Bench) -> None:
    """stomp.py sends, subscribes, acknowledges one by one, sends heartbeats, and leaves."""
    receipts, beats = target.cited
    with captured(target, "stomppy", target.target.identity.default_acceptor) as capture:
        place = target.destination()
        sender, consumer = (
            target.stomppy(heart_beat=(500, 500)),
            target.stomppy(heart_beat=(500, 500)),
        )
        consumer.subscribe(place, ack="client-individual")
        for number in range(COUNT):
            sender.publish(place, stamped(number))
            consumer.ack(consumer.message(body=stamped(number)))
        target.advance(ms(1200))
        consumer.unsubscribe()
        for peer in (sender, consumer):
            peer.disconnect()
            peer.expect_end() if peer.left is None and peer.ended is None else None
    agree(target, capture)
    captured_receipts = [
        event
        for event in capture.passive
        if isinstance(event, FrameReceived) and event.command == "RECEIPT"
    ]
    target.record_held(receipts, captured_receipts, f"{len(captured_receipts)} receipts arrived")
    beat_count = sum(isinstance(event, HeartBeatReceived) for event in capture.passive)
    detail = f"{beat_count} heart-beats of the broker were captured"
    target.record_finding(beats, beat_count >= 2, detail)


@case("AMQP10-MSG-02", "AMQP10-CREDIT-09", needs={"amqp", "sockets"})
def test_proton(target: Bench) -> None:
    """Proton's BlockingConnection sends, receives by credit, accepts, and closes."""
    whole, credit = target.cited
    with captured(target, "proton", target.target.identity.default_amqp_acceptor) as capture:
        node = target.node()
        sender, consumer = target.proton_blocking(), target.proton_blocking()
        link = sender.sender(node.address, capabilities=node.capabilities)
        for number in range(COUNT):
            sender.publish(link, stamped(number))
        receiver = consumer.receiver(node.address, credit=5, capabilities=node.capabilities)
        for number in range(COUNT):
            message = consumer.receive(receiver)
            came = bytes(message.body)  # its body is memory that is freed with the message
            target.record_finding(
                whole, came == stamped(number), f"message {number} came with {len(came)} bytes"
            )
            receiver.accept()
        for peer in (sender, consumer):
            peer.close()
    agree(target, capture)
    wrong = [
        kind for kind, uncertain in verdicts(capture.passive, of_family(target)) if not uncertain
    ]
    detail = f"the capture shows {wrong or 'nothing wrong'}"
    target.record_finding(credit, "over the credit" not in wrong, detail)


@case("AMQP091-TAG-01", needs={"amqp091", "sockets"})
def test_amqp_0_9_1(target: Bench) -> None:
    """The raw AMQP 0-9-1 client declares, publishes, consumes and acknowledges."""
    with captured(target, "amqp091", target.target.identity.default_amqp_acceptor) as capture:
        name = target.fresh_name()
        peer = target.amqp091()
        peer.declare(name)
        peer.consume(name)
        for number in range(COUNT):
            peer.publish(stamped(number), name)
            delivery = peer.delivery()
            target.control(delivery.body == stamped(number), "the message came as it was sent")
        peer.settle()
        peer.close()
        peer.close_socket()
    agree(target, capture)
    judge_tags(target, capture)


@case("AMQP091-TAG-01", needs={"amqp091", "sockets"})
def test_pika(target: Bench) -> None:
    """pika declares, publishes, consumes with a prefetch, and acknowledges."""
    with captured(target, "pika", target.target.identity.default_amqp_acceptor) as capture:
        peer = target.pika()
        peer.open_channel()
        queue = peer.declare(exclusive=True)
        peer.consume(queue, prefetch=2)
        for number in range(COUNT):
            peer.publish(queue, stamped(number))
            message = peer.expect(event_named("message")).detail
            target.control(
                message["body"].encode() == stamped(number), "the message came as it was sent"
            )
            peer.ack(message["tag"])
        peer.close()
        peer.close_socket()
    agree(target, capture)
    judge_tags(target, capture)


def judge_tags(target: Bench, capture: Capture) -> None:
    """Each captured delivery has its own tag."""
    tags = [dict(frame.headers)["delivery-tag"] for frame in capture.passive if _delivers(frame)]
    fine = len(tags) == len(set(tags)) == COUNT and "0" not in tags
    detail = f"the deliveries that were captured have the tags {', '.join(tags)}"
    target.record_finding(target.cited[0], fine, detail)


def _delivers(event: Event) -> TypeGuard[FrameReceived]:
    return isinstance(event, FrameReceived) and event.command == "basic.deliver"
