"""Proton's engine, the common AMQP client of Python, against the broker."""

from hypothesis import strategies as st

from brokerproof.harness.oracles import amqp_credit, amqp_deliveries, amqp_windows
from brokerproof.harness.protocols.amqp10.codec import NO_SASL
from brokerproof.suites.amqp10.steps import QUIET
from brokerproof.suites.api import Bench, CloseHow, case, over
from brokerproof.suites.steps.queues import patterned
from brokerproof.suites.steps.traces import judge_trace

OPEN_BEFORE_OTHER_FRAMES = "AMQP10-OPEN-01"
HEADERS_AFTER_SASL = "AMQP10-SASL-12"
CLOSE_WRITTEN = "AMQP10-CLOSE-01"
BARE_MESSAGE = "AMQP10-MSG-02"
NO_TRANSFER_WITHOUT_CREDIT = "AMQP10-CREDIT-09"
MESSAGES_NOT_MIXED = "AMQP10-XFER-19"
DRAIN_ANSWERED = "AMQP10-CREDIT-12"
DRAIN_IS_PROMPT = "AMQP10-CREDIT-24"
RELEASED_NOT_COUNTED = "AMQP10-OUT-08"
RELEASED_AVAILABLE = "AMQP10-OUT-09"
DELIVERY_FAILED_COUNTED = "AMQP10-OUT-11"
ACCEPTED_NOT_RESENT = "AMQP10-TERM-08"
FAILED_ATTEMPTS = "AMQP10-MSG-09"
MADE_AVAILABLE = "AMQP10-OUT-20"
REMOTE_INCOMING_WINDOW = "AMQP10-WIN-02"
SETTLED = "AMQP10-XFER-14"


@case(OPEN_BEFORE_OTHER_FRAMES, HEADERS_AFTER_SASL, CLOSE_WRITTEN, needs={"amqp"})
def test_proton_connects_and_closes(target: Bench) -> None:
    """Proton logs in, opens, begins a session and closes without an error. Each is answered."""
    proves = [OPEN_BEFORE_OTHER_FRAMES, HEADERS_AFTER_SASL]
    if target.amqp_peer().mechanism == NO_SASL:
        target.record_not_applicable(proves.pop(), "the broker has no SASL layer")
    peer = target.proton(proves=tuple(proves))
    peer.session()
    peer.close(proves=CLOSE_WRITTEN)
    error = peer.connection.remote_condition
    target.record_finding(CLOSE_WRITTEN, error is None, f"the broker's close has the error {error}")


@case(BARE_MESSAGE, NO_TRANSFER_WITHOUT_CREDIT, MESSAGES_NOT_MIXED, needs={"amqp"})
@over(
    examples=20,
    bodies=st.lists(
        st.one_of(st.binary(max_size=600), st.text("abc é", max_size=200), st.integers(-5, 2**40)),
        min_size=1,
        max_size=6,
    ),
    frame=st.sampled_from([512, 1024, 65_536]),
    subject=st.text("xyz", max_size=8),
)
def test_what_proton_sends_it_gets_again(
    target: Bench, bodies: list[bytes | str | int], frame: int, subject: str
) -> None:
    """Proton sends messages of different kinds and sizes, in small and large frames. Another Proton
    receives them unchanged and in order."""
    node = target.node()
    peer = target.proton(max_frame_size=frame)
    sender = peer.sender(peer.session(), node.address, capabilities=node.capabilities)
    for body in bodies:
        peer.publish(sender, body, subject=subject)
    other = target.proton(max_frame_size=frame)
    receiver = other.receiver(
        other.session(), node.address, capabilities=node.capabilities, credit=len(bodies)
    )
    for body in bodies:
        got = other.message(receiver, proves=MESSAGES_NOT_MIXED)
        have = bytes(got.message.body) if isinstance(body, bytes) else got.message.body
        target.record_finding(
            BARE_MESSAGE,
            have == body and got.message.subject == subject,
            f"sent {body!r}, got {have!r}",
        )
        other.settle(got)
    target.record_finding(
        NO_TRANSFER_WITHOUT_CREDIT,
        receiver.credit == 0,
        f"after {len(bodies)} messages, {receiver.credit} credits are left",
    )
    judge_trace(target, other, amqp_credit.credit)


@case(DRAIN_ANSWERED, DRAIN_IS_PROMPT, needs={"amqp"})
@over(examples=20, count=st.integers(0, 4), credit=st.integers(1, 8))
def test_proton_drains(target: Bench, count: int, credit: int) -> None:
    """Proton drains a queue. It gets the waiting messages, up to its credit, and then the remaining
    credit is used up."""
    node = target.node()
    producer, peer = target.proton(), target.proton()
    sender = producer.sender(producer.session(), node.address, capabilities=node.capabilities)
    for number in range(count):
        producer.publish(sender, b"%d" % number)
    receiver = peer.receiver(peer.session(), node.address, capabilities=node.capabilities)
    back = peer.drain(receiver, credit, proves=(DRAIN_ANSWERED, DRAIN_IS_PROMPT))
    got = peer.take_messages(receiver)
    fine = len(got) == min(count, credit) and back == credit - len(got)
    target.record_finding(
        (DRAIN_ANSWERED, DRAIN_IS_PROMPT),
        fine,
        f"with {credit} credits for {count} messages, {len(got)} arrived and {back} were left",
    )


@case(
    RELEASED_NOT_COUNTED,
    RELEASED_AVAILABLE,
    DELIVERY_FAILED_COUNTED,
    FAILED_ATTEMPTS,
    MADE_AVAILABLE,
    ACCEPTED_NOT_RESENT,
    needs={"amqp", "amqp-redelivery"},
)
@over(
    examples=20,
    outcome=st.sampled_from(["accepted", "released", "modified", "modified as failed"]),
    always=lambda target: [
        {"outcome": "released"},
        {"outcome": "modified"},
        {"outcome": "modified as failed"},
    ],
)
def test_what_proton_settles_is_settled(target: Bench, outcome: str) -> None:
    """Proton settles a message as accepted, released or modified (if the broker supports it). The
    message is consumed, or the next connection gets it with the correct delivery-count.

    One scenario: each example judges the requirements on its outcome.
    """
    if outcome.startswith("modified") and "amqp-modified" not in target.capabilities:
        outcome = "released"
    node = target.node()
    producer, peer = target.proton(), target.proton()
    sender = producer.sender(producer.session(), node.address, capabilities=node.capabilities)
    producer.publish(sender, b"settled")
    receiver = peer.receiver(peer.session(), node.address, capabilities=node.capabilities, credit=1)
    state, _, failed = outcome.partition(" as ")
    peer.settle(peer.message(receiver), state, failed=bool(failed))
    peer.close()
    other = target.proton()
    taking = other.receiver(other.session(), node.address, capabilities=node.capabilities, credit=1)
    judged = {
        "accepted": (ACCEPTED_NOT_RESENT,),
        "released": (RELEASED_AVAILABLE, RELEASED_NOT_COUNTED),
        "modified": (MADE_AVAILABLE, FAILED_ATTEMPTS),
        "modified as failed": (MADE_AVAILABLE, DELIVERY_FAILED_COUNTED),
    }
    others = {id for ids in judged.values() for id in ids} - {*judged[outcome]}
    target.record_not_applicable((*others,), f"the outcome was {outcome}")
    if outcome == "accepted":
        target.wait_until(lambda: bool(other.inbox and other.take_messages(taking)), QUIET)
        times = "not at all" if taking.credit == 1 else "once more"
        target.record_finding(
            ACCEPTED_NOT_RESENT, taking.credit == 1, f"accepted messages were redelivered {times}"
        )
        return
    available, counted = judged[outcome]
    count = other.message(taking, proves=available).message.delivery_count
    target.record_finding(
        counted,
        count == (1 if failed else 0),
        f"after the outcome {outcome}, the delivery-count is {count}",
    )


@case(BARE_MESSAGE, REMOTE_INCOMING_WINDOW, MESSAGES_NOT_MIXED, SETTLED, needs={"amqp"})
@over(examples=10, size=st.sampled_from([500, 1500, 2500]), window=st.sampled_from([4096, 8192]))
def test_messages_come_through_a_small_window(target: Bench, size: int, window: int) -> None:
    """Proton's session window has room for a few frames, and each message has several. The messages
    arrive whole as Proton opens the window, and the broker never exceeds it. One scenario: whole
    messages show that all four requirements are kept."""
    node = target.node()
    producer, peer = target.proton(max_frame_size=512), target.proton(max_frame_size=512)
    session = peer.session(incoming_bytes=window)
    sender = producer.sender(producer.session(), node.address, capabilities=node.capabilities)
    sent = [b"%d" % number + patterned(size) for number in range(8)]
    for body in sent:
        producer.publish(sender, body, proves=SETTLED)
    receiver = peer.receiver(session, node.address, capabilities=node.capabilities, credit=8)
    for body in sent:
        got = peer.message(receiver, proves=REMOTE_INCOMING_WINDOW)
        have = bytes(got.message.body or b"")
        words = f"{len(body)} bytes were sent; {len(have)} arrived"
        words += f", {'the same' if have == body else 'not the same'}"
        mixed = have != body and len(have) == len(body)
        target.record_finding(BARE_MESSAGE, have == body or mixed, words)
        target.record_finding(MESSAGES_NOT_MIXED, not mixed, words)
        peer.settle(got)
    judge_trace(target, peer, amqp_windows.windows, amqp_deliveries.settlement)
    peer.close_socket(CloseHow.RESET)
