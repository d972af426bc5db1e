"""A message left unsettled over one protocol is redelivered over the other, and counted."""

from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.suites.amqp10.steps import bodies, collect, numbered
from brokerproof.suites.api import PATIENCE, Bench, CloseHow, case, listed, over
from brokerproof.suites.conversion.protocol_pairs import message, post, queue, send

STOMP_CUMULATIVE_ACK = "STOMP12-SUB-11"
STOMP_INDIVIDUAL_ACK = "STOMP12-SUB-13"
STOMP_ACK_CONSUMES = "STOMP12-ACK-04"
RELEASED_AVAILABLE = "AMQP10-OUT-09"
DELIVERY_FAILED_COUNTED = "AMQP10-OUT-11"
TERMINAL_STATE_KEPT = "AMQP10-OUT-02"
FAILED_ATTEMPTS = "AMQP10-MSG-09"
STOMP_AUTO_ACK = "STOMP12-SUB-08"

MODES = ("auto", "client", "client-individual")


@case(
    STOMP_CUMULATIVE_ACK,
    STOMP_INDIVIDUAL_ACK,
    STOMP_ACK_CONSUMES,
    RELEASED_AVAILABLE,
    needs={"stomp", "amqp", "crossing"},
)
@over(
    examples=40,
    always=lambda target: [
        {"mode": mode, "count": 4, "acked": [1], "how": CloseHow.EOF} for mode in MODES[1:]
    ],
    mode=st.sampled_from(MODES[1:]),
    count=st.integers(1, 6),
    acked=st.lists(st.integers(0, 5), max_size=3),
    how=st.sampled_from([CloseHow.EOF, CloseHow.RESET, "UNSUBSCRIBE"]),
)
def test_what_stomp_does_not_acknowledge_amqp_gets(
    target: Bench, mode: str, count: int, acked: list[int], how: str
) -> None:
    """A STOMP subscription gets messages sent over AMQP, acknowledges some (in client mode
    cumulatively) and ends. An AMQP receiver gets exactly the remaining messages.

    One scenario: the mode of an example selects the requirement on ACK.
    """
    through = queue(target)
    sent = numbered(count)
    for body in sent:
        post(target, through, message(body))
    peer = target.stomp()
    peer.subscribe(through.destination, ack=mode)
    got = [peer.message() for _ in range(count)]
    done: set[int] = set()
    for index in acked:
        number = index % count
        if mode == "client" and any(number <= before for before in done):
            continue
        if number in done:
            continue
        peer.ack(got[number], receipt=True)
        done |= set(range(number + 1)) if mode == "client" else {number}
    if how == "UNSUBSCRIBE":
        peer.request("UNSUBSCRIBE", {"id": "0"})
        # Until the connection ends, STOMP leaves it open who owns the messages.
        peer.close_socket()
    else:
        peer.close_socket(CloseHow(how))
    expected = [body for number, body in enumerate(sent) if number not in done]
    other = target.amqp()
    received = bodies(
        collect(target, other, other.receiver(through.node, credit=count + 1), len(expected))
    )
    rule = STOMP_CUMULATIVE_ACK if mode == "client" else STOMP_INDIVIDUAL_ACK
    detail = (
        f"in mode {mode}, {listed(sorted(done))} of {count} were acknowledged, then {how};"
        f" {listed(received)} arrived over AMQP"
    )
    target.record_finding(
        (rule, STOMP_ACK_CONSUMES, RELEASED_AVAILABLE), sorted(received) == sorted(expected), detail
    )


@case(
    RELEASED_AVAILABLE,
    DELIVERY_FAILED_COUNTED,
    TERMINAL_STATE_KEPT,
    needs={"stomp", "amqp", "crossing"},
)
@over(
    examples=40,
    always=lambda target: [{"fates": ["accepted", "released", "failed", "kept"]}],
    fates=st.lists(
        st.sampled_from(["accepted", "released", "failed", "kept"]), min_size=1, max_size=6
    ),
)
def test_what_amqp_does_not_accept_stomp_gets(target: Bench, fates: list[str]) -> None:
    """An AMQP receiver accepts, releases or fails messages sent over STOMP, or keeps some and
    detaches. A STOMP subscription gets exactly the messages that were not accepted, unchanged;
    failed ones have redelivered:true if the broker has that header."""
    through = queue(target)
    sent = numbered(len(fates))
    producer = target.stomp()
    for body in sent:
        send(producer, through, body, {"own": body.decode()})
    peer = target.amqp()
    link = peer.receiver(through.node, credit=len(fates))
    got = collect(target, peer, link, len(fates), quiet=0)
    detail = f"{len(got)} of {len(fates)} arrived over AMQP; {peer.instead()}"
    target.control(bodies(got) == sent, detail)
    for delivery, fate in zip(got, fates, strict=True):
        if fate != "kept":
            state = codec.composite("modified", delivery_failed=True) if fate == "failed" else fate
            peer.disposition(delivery, state)
    peer.settle()
    peer.detach(link)
    other = target.stomp()
    other.subscribe(through.destination)
    expected = {body: fate for body, fate in zip(sent, fates, strict=True) if fate != "accepted"}
    send(producer, through, b"last")
    target.wait_until(
        lambda: other.messages_seen > len(expected) or other.ended is not None, PATIENCE
    )
    frames = other.take_messages()
    mine = {frame.body: frame for frame in frames if frame.body != b"last"}
    detail = f"{', '.join(fates)}: {listed(frame.body for frame in frames)} arrived over STOMP"
    target.record_finding(
        RELEASED_AVAILABLE, set(mine) == set(expected) and len(mine) == len(frames) - 1, detail
    )
    target.record_finding(
        TERMINAL_STATE_KEPT, not any(fates[int(body[:-1])] == "accepted" for body in mine), detail
    )
    whole = all(frame.get("own") == body.decode() for body, frame in mine.items())
    target.record_finding(
        RELEASED_AVAILABLE,
        whole,
        f"the headers of the redelivered messages {'are the same' if whole else 'have changed'}",
    )
    if "redelivered-header" in target.capabilities:
        wrong = [
            body
            for body, fate in expected.items()
            if fate == "failed" and body in mine and mine[body].get("redelivered") != "true"
        ]
        words = f"failed messages that arrived without redelivered:true: {listed(wrong)}"
        target.record_finding(DELIVERY_FAILED_COUNTED, not wrong, words)
    else:
        target.record_not_applicable(
            DELIVERY_FAILED_COUNTED, "this broker does not mark redelivered messages"
        )


@case(FAILED_ATTEMPTS, RELEASED_AVAILABLE, needs={"stomp", "amqp", "crossing", "nack"})
@over(examples=16, lost=st.integers(0, 3), how=st.sampled_from([CloseHow.EOF, CloseHow.RESET]))
def test_deliveries_by_stomp_that_failed_count_by_amqp(
    target: Bench, lost: int, how: CloseHow
) -> None:
    """A message goes to several STOMP subscriptions in turn, each lost without an ACK. Over AMQP it
    arrives whole, with a delivery-count no higher than the number of losses."""
    through = queue(target)
    send(target.stomp(), through, b"unlucky", {"own": "header"})
    for _ in range(lost):
        peer = target.stomp()
        peer.subscribe(through.destination, ack="client-individual")
        peer.message(body=b"unlucky")
        peer.close_socket(how)
    other = target.amqp()
    deliveries = collect(target, other, other.receiver(through.node, credit=1), 1)
    detail = f"after {lost} consumers were lost, {listed(bodies(deliveries))} arrived"
    target.record_finding(RELEASED_AVAILABLE, bodies(deliveries) == [b"unlucky"], detail)
    if deliveries:
        count = deliveries[0].message.fields("header").get("delivery-count", 0)
        detail = f"after {lost} consumers were lost, the delivery-count is {count}"
        target.record_finding(FAILED_ATTEMPTS, 0 <= count <= lost, detail)


@case(STOMP_AUTO_ACK, TERMINAL_STATE_KEPT, needs={"stomp", "amqp", "crossing"})
@over(examples=12, count=st.integers(1, 5), how=st.sampled_from([CloseHow.EOF, CloseHow.RESET]))
def test_what_went_out_in_mode_auto_is_gone(target: Bench, count: int, how: CloseHow) -> None:
    """Messages are sent over AMQP to a STOMP subscription in auto mode, whose connection is then
    lost. No AMQP receiver gets them."""
    through = queue(target)
    peer = target.stomp()
    peer.subscribe(through.destination, ack="auto")
    for body in numbered(count):
        post(target, through, message(body))
    got = [peer.message() for _ in range(count)]
    target.control(len(got) == count, f"{len(got)} of {count} arrived")
    peer.settle()
    peer.close_socket(how)
    other = target.amqp()
    received = bodies(collect(target, other, other.receiver(through.node, credit=count), 0))
    detail = f"{count} messages were delivered in mode auto; {listed(received)} arrived over AMQP"
    target.record_finding((STOMP_AUTO_ACK, TERMINAL_STATE_KEPT), not received, detail)
