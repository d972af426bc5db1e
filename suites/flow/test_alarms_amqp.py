"""AMQP 1.0 under RabbitMQ's memory and disk alarms: windows close, consumers continue.

(RabbitMQ: flow control.) AMQP 1.0 has its own flow control, and RabbitMQ 4 uses it: a session's
incoming-window of 0 (2.5.6). If a client sends nevertheless, or if the broker stops reading
instead, the other protocols' rule applies: the broker may accept the first message, which reveals
the client as a publisher, but not the next one.
"""

from brokerproof.harness.protocols.amqp10.endpoint_state import Session
from brokerproof.suites.amqp091.steps import QUIET
from brokerproof.suites.amqp10.steps import bodies, collect, granted, numbered, ready_sender
from brokerproof.suites.api import PATIENCE, Bench, case, listed
from brokerproof.suites.api.amqp10 import AmqpPeer, Link
from brokerproof.suites.flow.test_alarms_stomp import (
    BLOCKED_ON_DISK,
    BLOCKED_ON_MEMORY,
    RESOURCES,
    short_of,
)

CONNECTION_BLOCKED = "RABBITMQ-FLOW-conn-1"


def _may_send(target: Bench, peer: AmqpPeer, link: Link) -> bool:
    """True if window and credit allow a transfer now or soon."""
    return target.wait_until(
        lambda: link.credit > 0 and link.session.remote_incoming_window > 0, QUIET
    )


def _opens(target: Bench, session: Session, most: int) -> bool:
    """True if the session's window soon allows ``most`` transfers."""
    return target.wait_until(lambda: session.remote_incoming_window >= most, PATIENCE)


def _settled(peer: AmqpPeer, link: Link, deliveries: list[int]) -> list[int]:
    return [
        delivery_id
        for delivery_id in deliveries
        if link.session.outcomes.get(delivery_id) is not None
    ]


@case(BLOCKED_ON_MEMORY, BLOCKED_ON_DISK, CONNECTION_BLOCKED, needs={"alarms"})
def test_an_alarm_holds_back_amqp_producers(target: Bench) -> None:
    """Under a memory alarm and then a disk alarm a client sends what its windows allow. At most one
    message is settled and delivered, another connection consumes, and after the alarm the remaining
    messages arrive once, in order. One scenario: an alarm blocks the whole broker."""
    node = target.node()
    consumer = target.amqp()
    inlet = consumer.receiver(node, credit=100)
    for resource, proves in RESOURCES.items():
        publisher = target.amqp()
        link = ready_sender(target, publisher, node, 4)
        publisher.confirmed(link.session, publisher.post(link, b"before"))
        received = collect(target, consumer, inlet, 1)
        detail = f"'before' was sent before the alarm; {listed(bodies(received))} arrived"
        target.control(bodies(received) == [b"before"], detail)
        expected, sent = numbered(3), []
        with short_of(target, resource):
            target.advance(QUIET)
            for body in expected:
                if not _may_send(target, publisher, link):
                    break
                sent.append(publisher.post(link, body))
            target.advance(QUIET * 2)
            reported = _settled(publisher, link, sent)
            early = collect(target, consumer, inlet, 1, within=QUIET)
            detail = (
                f"while {resource} was short, {len(sent)} messages were sent; {len(reported)} were"
                f" settled, and {len(early)} arrived"
            )
            words = f"{detail}; expected no more than the first"
            target.record_finding(proves, len(reported) <= 1 and len(early) <= 1, words)
            consumer.disposition(received[0])
            scratch = consumer.receiver(node)
            consumer.detach(scratch, proves=CONNECTION_BLOCKED)
            words = f"under the alarm, on a connection that only consumes: {consumer.instead()}"
            target.record_finding(CONNECTION_BLOCKED, consumer.ended is None, words)
        granted(target, publisher, link, len(expected) - len(sent))
        target.record_finding(
            proves,
            _opens(target, link.session, 3),
            f"after the alarm, the window is {link.session.remote_incoming_window}",
        )
        for body in expected[len(sent) :]:
            sent.append(publisher.post(link, body))
        for delivery_id in sent:
            publisher.confirmed(link.session, delivery_id, proves=proves)
        delivered = [*early, *collect(target, consumer, inlet, 3 - len(early))]
        target.record_finding(
            proves,
            bodies(delivered) == expected,
            f"after the alarm, {listed(bodies(delivered))} arrived; expected {listed(expected)}",
        )
        for delivery in delivered:
            consumer.disposition(delivery)


@case(CONNECTION_BLOCKED, BLOCKED_ON_MEMORY, needs={"alarms", "amqp-alarm-window"})
def test_sessions_are_told_of_an_alarm_by_their_window(target: Bench) -> None:
    """Under an alarm every session gets an incoming-window of 0 (a new one in its begin), and links
    keep their credit. The windows open when the last of two alarms is cleared, and not before. One
    scenario: it takes two overlapping alarms."""
    node = target.node()
    peer = target.amqp()
    link = ready_sender(target, peer, node)
    with short_of(target, "disk"):
        with short_of(target, "memory"):
            closed = target.wait_until(lambda: link.session.remote_incoming_window <= 0, PATIENCE)
            detail = f"while memory was short, the window was {link.session.remote_incoming_window}"
            target.record_finding(CONNECTION_BLOCKED, closed, detail)
            words = (
                f"while memory was short, the link had {link.credit} credits and should keep them"
            )
            target.record_finding(CONNECTION_BLOCKED, link.credit > 0, words)
            late = peer.begin(1)
            target.record_finding(
                CONNECTION_BLOCKED,
                late.remote_incoming_window == 0,
                "a session that began under the alarm has a window of"
                f" {late.remote_incoming_window}; expected 0",
            )
        target.advance(QUIET)
        still = [session.remote_incoming_window for session in (link.session, late)]
        detail = f"with only disk space short, the windows are {listed(still)}; expected 0"
        target.record_finding(BLOCKED_ON_MEMORY, still == [0, 0], detail)
    opened = target.wait_until(
        lambda: min(link.session.remote_incoming_window, late.remote_incoming_window) > 0, PATIENCE
    )
    windows = [session.remote_incoming_window for session in (link.session, late)]
    detail = f"after the alarms, the windows are {listed(windows)}"
    target.record_finding(BLOCKED_ON_MEMORY, opened, detail)
    peer.confirmed(link.session, peer.post(link, b"after"), proves=BLOCKED_ON_MEMORY)


@case(BLOCKED_ON_MEMORY, needs={"alarms", "amqp-alarm-window"})
def test_what_an_alarm_overtakes_is_taken(target: Bench) -> None:
    """A client's messages are in flight when the alarm is announced. Its session stays open, and
    each message is settled, at the latest after the alarm."""
    node = target.node()
    peer = target.amqp()
    link = ready_sender(target, peer, node, 3)
    target.raise_alarm("memory")
    try:
        sent = [
            peer.post(link, body) for body in numbered(3)
        ]  # before anything that arrived meanwhile is read
        target.advance(QUIET)
        target.record_finding(
            BLOCKED_ON_MEMORY,
            link.session.ended is None and peer.ended is None,
            f"after three messages sent before the alarm took effect: {peer.instead()}",
        )
    finally:
        target.clear_alarm("memory")
    for delivery_id in sent:
        peer.confirmed(link.session, delivery_id, proves=BLOCKED_ON_MEMORY)
