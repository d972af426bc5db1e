"""rhea, the AMQP 1.0 client of JavaScript, against an acceptor for AMQP: send, receive, settle,
drain, and stay connected.

Not collected with the rest, since it needs node and npm: name the file, or run ``tox -e interop``.
rhea has no transactions.
"""

from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case, over
from brokerproof.harness.clients.client_event import event_named
from brokerproof.harness.clients.rhea import RheaPeer
from brokerproof.harness.model.time import seconds
from brokerproof.harness.protocols.amqp10.raw_peer import Node
from brokerproof.suites.amqp10.steps import QUIET, bodies, collect, fill, granted, numbered

OPEN_BEFORE_OTHER_FRAMES = "AMQP10-OPEN-01"
HEADERS_AFTER_SASL = "AMQP10-SASL-12"
CLOSE_WRITTEN = "AMQP10-CLOSE-01"
BARE_MESSAGE = "AMQP10-MSG-02"
NO_TRANSFER_WITHOUT_CREDIT = "AMQP10-CREDIT-09"
DISPOSITION_ROLE = "AMQP10-DISP-01"
MESSAGES_NOT_MIXED = "AMQP10-XFER-19"
DRAIN_ANSWERED = "AMQP10-CREDIT-12"
DRAIN_IS_PROMPT = "AMQP10-CREDIT-24"
RELEASED_NOT_COUNTED = "AMQP10-OUT-08"
RELEASED_AVAILABLE = "AMQP10-OUT-09"
DELIVERY_FAILED_COUNTED = "AMQP10-OUT-11"
ACCEPTED_NOT_RESENT = "AMQP10-TERM-08"
TIMEOUT_RESTARTED_BY_FRAMES = "AMQP10-IDLE-01"
TIMEOUTS_INDEPENDENT = "AMQP10-IDLE-02"


def sender(peer: RheaPeer, node: Node, *, settled: bool = False) -> str:
    """Attach a sender of rhea's and wait for its credit; return its name."""
    name = f"to-{node.address}"
    peer.do(
        "sender",
        name=name,
        address=node.address,
        capabilities=list(node.capabilities),
        settled=settled,
    )
    peer.expect(event_named("sender_open", link=name))
    peer.expect(event_named("sendable", link=name))
    return name


def receiver(peer: RheaPeer, node: Node, *, credit: int = 0) -> str:
    """Attach a receiver of rhea's; return its name."""
    name = f"from-{node.address}"
    peer.do(
        "receiver",
        name=name,
        address=node.address,
        capabilities=list(node.capabilities),
        credit=credit,
    )
    peer.expect(event_named("receiver_open", link=name))
    return name


def encoded(body: bytes) -> dict[str, str]:
    """Return bytes as they are sent to rhea."""
    return {"octets": body.hex()}


@case(OPEN_BEFORE_OTHER_FRAMES, HEADERS_AFTER_SASL, CLOSE_WRITTEN, needs={"amqp"})
def test_rhea_connects_and_closes(target: Bench) -> None:
    """rhea logs in, opens and closes. Each step is answered."""
    peer = target.rhea(proves=(OPEN_BEFORE_OTHER_FRAMES, HEADERS_AFTER_SASL))
    peer.do("close")
    peer.expect(event_named("connection_close"), proves=CLOSE_WRITTEN)


@case(BARE_MESSAGE, NO_TRANSFER_WITHOUT_CREDIT, DISPOSITION_ROLE, needs={"amqp"})
@over(
    examples=6,
    sent=st.lists(
        st.one_of(
            st.binary(max_size=600).map(encoded),
            st.text("abc é☕", max_size=200),
            st.integers(-5, 2**40),
        ),
        min_size=1,
        max_size=5,
    ),
)
def test_what_rhea_sends_it_gets_again(
    target: Bench, sent: list[dict[str, str] | str | int]
) -> None:
    """rhea sends messages of different kinds, and each is accepted. Another rhea receives them
    unchanged and in order, no more than its credit."""
    node = target.node()
    peer, other = target.rhea(), target.rhea()
    to = sender(peer, node)
    for number, body in enumerate(sent):
        peer.do(
            "send", link=to, message={"body": body, "message_id": f"id-{number}", "subject": "s"}
        )
        peer.expect(event_named("accepted", link=to), proves=DISPOSITION_ROLE)
    link = receiver(other, node, credit=len(sent))
    for number, body in enumerate(sent):
        message = other.expect(event_named("message", link=link), proves=BARE_MESSAGE).detail
        have = {"octets": message["body"]["octets"]} if isinstance(body, dict) else message["body"]
        fine = (
            have == body and message["message_id"] == f"id-{number}" and message["subject"] == "s"
        )
        target.record_finding(BARE_MESSAGE, fine, f"sent {body!r}, arrived {message}")
        left = len(sent) - number - 1
        target.record_finding(
            NO_TRANSFER_WITHOUT_CREDIT,
            message["credit"] == left,
            f"after {number + 1} of {len(sent)} credits {message['credit']} left",
        )
        other.do("settle", number=number, outcome="accepted")


@case(BARE_MESSAGE, MESSAGES_NOT_MIXED, needs={"amqp"})
@over(
    examples=4,
    size=st.sampled_from([0, 512, 100_000, 300_000]),
    frame=st.sampled_from([512, 4096, 65_536]),
)
def test_messages_cross_between_rhea_and_a_raw_peer(target: Bench, size: int, frame: int) -> None:
    """rhea and a raw peer exchange bytes in small and large frames. Each gets the same bytes."""
    there, back = target.node(), target.node()
    peer = target.rhea(max_frame_size=frame)
    body = bytes(range(256)) * (size // 256)
    to = sender(peer, there)
    peer.do("send", link=to, message={"body": encoded(body)})
    peer.expect(event_named("accepted", link=to))
    raw = target.amqp()
    got = collect(target, raw, raw.receiver(there, credit=1), 1, quiet=0)
    target.record_finding(
        (BARE_MESSAGE, MESSAGES_NOT_MIXED),
        bodies(got) == [body],
        f"rhea sent {len(body)} bytes, {len(got)} messages arrived",
    )
    link = raw.sender(back)
    granted(target, raw, link)
    raw.publish(link, body)
    message = peer_message(peer, receiver(peer, back, credit=1))
    same = message["body"].get("octets") == body.hex()
    target.record_finding(
        (BARE_MESSAGE, MESSAGES_NOT_MIXED),
        same,
        f"{len(body)} bytes went to rhea, {'the same' if same else 'others'} arrived",
    )


def peer_message(peer: RheaPeer, link: str) -> dict[str, Any]:
    """Return the next message of a receiver; that it arrives is a control."""
    return dict(peer.expect(event_named("message", link=link)).detail)


@case(NO_TRANSFER_WITHOUT_CREDIT, DRAIN_ANSWERED, DRAIN_IS_PROMPT, needs={"amqp"})
@over(examples=6, count=st.integers(0, 4), credit=st.integers(1, 6))
def test_rhea_drains(target: Bench, count: int, credit: int) -> None:
    """rhea gives credit and drains. It gets the waiting messages, up to its credit, and the rest of
    the credit back; nothing follows until new credit."""
    node = target.node()
    fill(target, node, numbered(count))
    peer = target.rhea()
    link = receiver(peer, node)
    peer.do("credit", link=link, count=credit)
    peer.do("drain", link=link)
    due = min(count, credit)
    for _ in range(due):
        peer.expect(event_named("message", link=link), proves=(DRAIN_ANSWERED, DRAIN_IS_PROMPT))
    # When every credit was used by a message there is nothing to give back, and no flow need say
    # so.
    if credit > due:
        drained = peer.expect(
            event_named("receiver_drained", link=link), proves=(DRAIN_ANSWERED, DRAIN_IS_PROMPT)
        )
        target.record_finding(
            (DRAIN_ANSWERED, DRAIN_IS_PROMPT),
            drained.detail["credit"] == 0,
            f"drained with {drained.detail['credit']} left",
        )
    target.advance(QUIET)
    late = [event.brief() for event in peer.inbox if event.step == "message"]
    target.record_finding(
        NO_TRANSFER_WITHOUT_CREDIT,
        not late,
        f"{credit} credits for {count} messages: behind the drain arrived {late or 'nothing'}",
    )


@case(
    RELEASED_NOT_COUNTED,
    RELEASED_AVAILABLE,
    DELIVERY_FAILED_COUNTED,
    ACCEPTED_NOT_RESENT,
    needs={"amqp", "amqp-redelivery"},
)
@over(
    always=lambda target: [
        {"outcome": outcome, "failed": True} for outcome in ("accepted", "released", "modified")
    ],
    examples=3,
    outcome=st.sampled_from(["accepted", "released", "modified"]),
    failed=st.booleans(),
)
def test_what_rhea_settles_is_settled(target: Bench, outcome: str, failed: bool) -> None:
    """rhea settles a message as accepted, released or modified. It is gone, or another connection
    gets it with the right delivery-count.

    One scenario: each example judges the requirements of its outcome.
    """
    node = target.node()
    fill(target, node, [b"settled"])
    peer = target.rhea()
    link = receiver(peer, node, credit=1)
    message = peer_message(peer, link)
    target.control(
        message["settled"] is False and message["delivery_count"] == 0,
        f"at first arrived {message}",
    )
    peer.do(
        "settle",
        number=0,
        outcome=outcome,
        about={"delivery_failed": failed, "undeliverable_here": False},
    )
    peer.do("close")
    peer.expect(event_named("connection_close"))
    other = target.rhea()
    taking = receiver(other, node, credit=1)
    if outcome == "accepted":
        target.wait_until(lambda: any(event.step == "message" for event in other.inbox), QUIET)
        late = [event.brief() for event in other.inbox if event.step == "message"]
        target.record_finding(
            (
                ACCEPTED_NOT_RESENT,
                RELEASED_AVAILABLE,
                RELEASED_NOT_COUNTED,
                DELIVERY_FAILED_COUNTED,
            ),
            not late,
            f"after accepted arrived {late or 'nothing'} again",
        )
        return
    back = other.expect(event_named("message", link=taking), proves=RELEASED_AVAILABLE).detail
    expected = int(failed and outcome == "modified")
    detail = (
        f"{outcome}, failed={failed}: the delivery-count is {back['delivery_count']}, should be"
        f" {expected}"
    )
    target.record_finding(
        (RELEASED_NOT_COUNTED, DELIVERY_FAILED_COUNTED), back["delivery_count"] == expected, detail
    )
    target.record_not_applicable(ACCEPTED_NOT_RESENT, "nothing was accepted")


@case(TIMEOUT_RESTARTED_BY_FRAMES, TIMEOUTS_INDEPENDENT, needs={"amqp"})
def test_an_idle_rhea_stays_connected(target: Bench) -> None:
    """rhea announces an idle time-out of a second and is idle for six. Both sides keep their
    time-outs: the connection stays, and a message is accepted afterwards."""
    node = target.node()
    peer = target.rhea(idle_time_out=1000)
    to = sender(peer, node)
    target.advance(seconds(6))
    ended = [event.brief() for event in peer.inbox if peer.fatal(event)]
    target.record_finding(
        (TIMEOUT_RESTARTED_BY_FRAMES, TIMEOUTS_INDEPENDENT),
        not ended,
        f"after 6 s of silence {ended or 'the connection stands'}",
    )
    peer.do("send", link=to, message={"body": "after the silence"})
    peer.expect(
        event_named("accepted", link=to), proves=(TIMEOUT_RESTARTED_BY_FRAMES, TIMEOUTS_INDEPENDENT)
    )
