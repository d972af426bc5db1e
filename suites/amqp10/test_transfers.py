"""Transfers (2.6.14, 2.7.5): continuing, settling and aborting deliveries; agreed settle modes."""

from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import messages
from brokerproof.harness.protocols.amqp10.types import Malformed
from brokerproof.suites.amqp10.steps import (
    QUIET,
    bodies,
    bystander,
    collect,
    fill,
    granted,
    lasting_objection,
    numbered,
    ready_sender,
    refused,
)
from brokerproof.suites.api import (
    PATIENCE,
    Bench,
    FrameReceived,
    Match,
    Target,
    case,
    listed,
    over,
    shown,
)
from brokerproof.suites.api.amqp10 import RECEIVER, SENDER, AmqpPeer, Delivery, Frame, Link, Node
from brokerproof.suites.steps.queues import patterned
from brokerproof.suites.steps.traces import frames_received

DELIVERY_ID_REPEATED = "AMQP10-XFER-03"
DELIVERY_TAG_REPEATED = "AMQP10-XFER-25"
MESSAGE_FORMAT_REPEATED = "AMQP10-XFER-26"
WHOLE = "AMQP10-MSG-02"
UNSETTLED_BY_DEFAULT = "AMQP10-XFER-08"
CLOSE_WRITTEN = "AMQP10-CLOSE-01"
SETTLED_LATER = "AMQP10-READING-XFER-01"
SETTLED_PERSISTS = "AMQP10-XFER-09"
ALL_SETTLED = "AMQP10-XFER-10"
ALL_UNSETTLED = "AMQP10-XFER-11"
ABORTED_BEFORE_MORE = "AMQP10-XFER-12"
ABORTED_DELIVERY = "AMQP10-XFER-18"
MODE_FIRST_SETTLES = "AMQP10-XFER-14"
MODE_SECOND_ILLEGAL = "AMQP10-XFER-16"
MODE_OF_SETTLED_IGNORED = "AMQP10-XFER-17"
SENDERS_STATE_KEPT = "AMQP10-XFER-24"

UNSETTLED, SETTLED = 0, 1
FIRST, SECOND = 0, 1
OTHERS = {
    "delivery-id": DELIVERY_ID_REPEATED,
    "delivery-tag": DELIVERY_TAG_REPEATED,
    "message-format": MESSAGE_FORMAT_REPEATED,
}
"""The fields that a later transfer may repeat but not change, with the requirement that says so."""


def settles(peer: AmqpPeer, link: Link, delivery: int) -> bool:
    return link.session.outcomes.get(delivery) is not None


def spoken_of(target: Bench, peer: AmqpPeer, delivery: int) -> list[FrameReceived]:
    """The dispositions with which the broker, as a receiver, names this delivery."""

    def names(table: Mapping[str, str]) -> bool:
        first = int(table["first"])
        return (delivery - first) % 2**32 <= (int(table.get("last", first)) - first) % 2**32

    return [
        event
        for event in frames_received(target, peer, "disposition")
        if dict(event.headers).get("role") == "receiver" and names(dict(event.headers))
    ]


def each_field(target: Target) -> Iterable[Mapping[str, Any]]:
    """Change each of the fields that must not change, one at a time."""
    return [{"field": field, "repeated": 1} for field in OTHERS]


@case(*OTHERS.values(), needs={"amqp"})
@over(
    always=each_field,
    examples=12,
    field=st.sampled_from(sorted(OTHERS)),
    repeated=st.integers(0, 2),
)
def test_what_names_a_delivery_does_not_change_in_its_midst(
    target: Bench, field: str, repeated: int
) -> None:
    """A message has several transfers. Repeating the first one's delivery-id, delivery-tag and
    message-format is accepted; then one transfer changes one of the three. The broker answers with
    an error, and the message is in no queue; another connection still works."""
    with bystander(target):
        node = target.node()
        peer = target.amqp()
        link = ready_sender(target, peer, node)
        payload = messages.message(b"torn")
        tag = b"the-tag"
        delivery = peer.transfer(link, payload[:2], delivery_tag=tag, more=True)
        same = {"delivery-id": delivery, "delivery-tag": tag, "message-format": 0}
        for at in range(2, 2 + repeated):
            peer.transfer(link, payload[at : at + 1], more=True, **same)
        peer.settle()
        wrong = {"delivery-id": delivery + 1, "delivery-tag": b"another", "message-format": 7}
        peer.transfer(link, payload[2 + repeated :], **{field: wrong[field]})
        why = f"another {field} in the middle of a delivery"
        refused(target, peer, link, delivery, (OTHERS[field],), why)
        peer.close_socket()
        other = target.amqp()
        received = bodies(collect(target, other, other.receiver(node, credit=1), 0))
        target.record_finding(
            OTHERS[field], b"torn" not in received, f"after {why} the queue has {listed(received)}"
        )


@case(WHOLE, needs={"amqp"})
@over(
    examples=12,
    always=lambda target: [{"sizes": [40] * 300, "links": 1}, {"sizes": [40] * 30, "links": 3}],
    sizes=st.lists(st.sampled_from([0, 1, 7, 40, 500]), min_size=1, max_size=40),
    links=st.integers(1, 3),
)
def test_a_message_in_any_number_of_transfers_is_whole(
    target: Bench, sizes: list[int], links: int
) -> None:
    """Messages are sent in transfers of any number and size, some of them empty, on several links
    in turn. The body of each arrives unchanged."""
    peer = target.amqp()
    nodes = [target.node() for _ in range(links)]
    senders = [peer.sender(node) for node in nodes]
    for link in senders:
        granted(target, peer, link)
    sizes = [min(size, peer.endpoint.max_frame_size - 60) for size in sizes]
    body = patterned(max(1, sum(sizes)))
    payload = messages.message(body)
    deliveries: dict[Link, int] = {}
    at, session = 0, peer.session
    for size in sizes:
        for link in senders:
            room = target.wait_until(lambda: session.remote_incoming_window > 0, PATIENCE)
            target.control(room, f"the session's window is shut; {peer.instead()}")
            delivery = peer.transfer(link, payload[at : at + size], more=True)
            deliveries.setdefault(link, delivery)
        at += size
    for link in senders:
        last = peer.transfer(link, payload[at:])
        peer.confirmed(link.session, deliveries.get(link, last), proves=WHOLE)
    for node in nodes:
        got = collect(target, peer, peer.receiver(node, credit=1), 1)
        words = f"a message in {len(sizes) + 1} transfers on each of {links} links"
        same = [one == body for one in bodies(got)]
        detail = f"{words}: {len(got)} arrived, {sum(same)} of them as sent"
        target.record_finding(WHOLE, same == [True], detail)


@case(UNSETTLED_BY_DEFAULT, SETTLED_PERSISTS, SETTLED_LATER, CLOSE_WRITTEN, needs={"amqp"})
@over(
    always=lambda target: [
        {"flags": [None]},
        {"flags": [None, None, True]},
        {"flags": [True, None, None]},
        {"flags": [None, None]},
    ],
    examples=20,
    flags=st.lists(st.sampled_from([None, None, True, False]), min_size=1, max_size=4),
)
def test_settled_on_one_transfer_is_settled_for_good(
    target: Bench, flags: list[bool | None]
) -> None:
    """A message has one to four transfers, each with settled true, false or absent. If one is true,
    the broker accepts the message without a disposition; otherwise it settles the message. If the
    broker ends the connection, it sends a close first. One scenario: the requirements concern one
    flag."""
    flags = [
        flag if True not in flags[:at] else flag or None for at, flag in enumerate(flags)
    ]  # no transfer can unsettle it
    node = target.node()
    peer = target.amqp()
    link = ready_sender(target, peer, node)
    payload = messages.message(b"in parts")
    pieces = [payload[at * 3 : at * 3 + 3] for at in range(len(flags) - 1)]
    pieces.append(payload[3 * len(pieces) :])
    for at, (piece, flag) in enumerate(zip(pieces, flags, strict=True)):
        delivery = peer.transfer(link, piece, settled=flag, more=at < len(flags) - 1 or None)
    context = f"after transfers of one message with settled={shown(flags)}"
    judged = (
        (UNSETTLED_BY_DEFAULT,)
        if len(flags) == 1
        else (SETTLED_PERSISTS,)
        if flags[0]
        else (UNSETTLED_BY_DEFAULT, SETTLED_PERSISTS)
    )
    if True in flags:
        error = lasting_objection(peer)
        if flags[0]:
            target.require(
                judged,
                error is None,
                f"{context}, the broker sent {error.brief() if error else 'no error'}",
            )
        else:
            observed = error.brief() if error else peer.instead() if peer.ended else "no error"
            detail = f"{context}: {observed}"
            taken = error is None and peer.ended is None
            target.record_finding(SETTLED_LATER, taken, detail)
            target.record_finding(CLOSE_WRITTEN, error is not None or peer.ended is None, detail)
            if not taken:
                target.record_not_applicable(judged, detail)
                return
        peer.settle()
        word = spoken_of(target, peer, delivery)
        target.record_finding(judged, not word, f"{context}, dispositions: {len(word)}; expected 0")
    else:
        target.wait_until(lambda: settles(peer, link, delivery) or peer.ended is not None, PATIENCE)
        words = f"{context}: {peer.instead()}"
        target.record_finding(judged, settles(peer, link, delivery), words)
    received = bodies(collect(target, peer, peer.receiver(node, credit=2), 1))
    count = len(received)
    target.record_finding(judged, count == 1, f"{context}, messages in the queue: {count}")


@case(ALL_SETTLED, ALL_UNSETTLED, needs={"amqp"})
@over(
    always=lambda target: [
        {"mode": SETTLED, "sizes": [10, 1500]},
        {"mode": UNSETTLED, "sizes": [10, 1500]},
    ],
    examples=16,
    mode=st.sampled_from([SETTLED, UNSETTLED]),
    sizes=st.lists(st.sampled_from([0, 10, 500, 1500]), min_size=1, max_size=4),
)
def test_the_agreed_settle_mode_of_the_sender_is_kept(
    target: Bench, mode: int, sizes: list[int]
) -> None:
    """A receiver asks for snd-settle-mode settled or unsettled. If the broker's attach agrees, at
    least one transfer of each delivery is settled (mode settled), or none is (mode unsettled)."""
    node = target.node()
    fill(target, node, [patterned(size) for size in sizes])
    peer = target.amqp(max_frame_size=512)
    link = peer.attach(RECEIVER, node, snd_settle_mode=mode)
    assert link.answer is not None
    agreed = link.answer.get("snd-settle-mode", 2)
    modes = {SETTLED: "settled", UNSETTLED: "unsettled"}
    target.record_behaviour(f"amqp.asked-{modes[mode]}", modes.get(agreed, "mixed"))
    peer.flow(link, link_credit=len(sizes))
    got = collect(target, peer, link, len(sizes), quiet=0)
    target.control(
        len(got) == len(sizes), f"{len(got)} of {len(sizes)} messages arrived; {peer.instead()}"
    )
    settled = sum(any(part.get("settled") is True for part in one.frames) for one in got)
    if agreed in modes:
        target.record_finding(
            ALL_SETTLED if agreed == SETTLED else ALL_UNSETTLED,
            settled == (len(got) if agreed == SETTLED else 0),
            f"the agreed snd-settle-mode is {modes[agreed]}; {settled} of {len(got)} deliveries"
            " arrived settled",
        )
    if agreed != mode:
        target.record_not_applicable(
            ALL_SETTLED if mode == SETTLED else ALL_UNSETTLED,
            f"asked for {mode}, the broker answered with snd-settle-mode {agreed}, so nothing is"
            " promised",
        )


@case(ABORTED_BEFORE_MORE, ABORTED_DELIVERY, needs={"amqp"})
@over(
    always=lambda target: [
        {"parts": 1, "more": True, "junk": b"\x00", "settled": None},
        {"parts": 1, "more": None, "junk": b"", "settled": None},
        {"parts": 0, "more": None, "junk": b"", "settled": None},
        {"parts": 3, "more": None, "junk": messages.message(b"aborted")[3:], "settled": None},
    ],
    examples=24,
    parts=st.integers(0, 3),
    more=st.sampled_from([True, None]),
    junk=st.binary(max_size=20),
    settled=st.sampled_from([True, None]),
)
def test_an_aborted_delivery_never_was(
    target: Bench, parts: int, more: bool | None, junk: bytes, settled: bool | None
) -> None:
    """A client aborts a message after some of its transfers; the aborting transfer may have a
    payload. No disposition names that delivery. The next message is accepted, and is alone in the
    queue. If that works, the case repeats it with more set as well, which must be ignored."""
    if not more:
        judge_aborted(target, ABORTED_DELIVERY, parts, None, junk, settled)
        return
    target.record_not_applicable(
        ABORTED_BEFORE_MORE,
        "more=true is tried only if a delivery aborted without it leaves no trace",
    )
    judge_aborted(target, ABORTED_DELIVERY, parts, None, junk, settled)
    judge_aborted(target, ABORTED_BEFORE_MORE, parts, True, junk, settled)


def judge_aborted(
    target: Bench, proves: str, parts: int, more: bool | None, junk: bytes, settled: bool | None
) -> None:
    """Abort a delivery after ``parts`` transfers; judge that it leaves no trace."""
    node = target.node()
    peer = target.amqp()
    link = ready_sender(target, peer, node, 2)
    whole = messages.message(b"aborted")
    for at in range(parts):
        peer.transfer(link, whole[at : at + 1], more=True)
    aborted = peer.transfer(link, junk, aborted=True, more=more, settled=settled)
    peer.publish(link, b"whole", proves=proves)
    peer.settle()
    word = spoken_of(target, peer, aborted)
    target.require(
        proves, not word, f"dispositions for an aborted delivery: {len(word)}; expected 0"
    )
    received = [
        _carried(delivery) for delivery in collect(target, peer, peer.receiver(node, credit=5), 1)
    ]
    words = f"after an aborted delivery (more={shown(more)}), the queue has {listed(received)}"
    target.require(proves, received == [b"whole"], words)


def _carried(delivery: Delivery) -> bytes:
    """Return the body of a message; if the payload is not a message (pieces of an aborted one, for
    example), return the payload."""
    try:
        return bytes(delivery.message.body)
    except Malformed:
        return delivery.payload


@case(MODE_FIRST_SETTLES, MODE_SECOND_ILLEGAL, needs={"amqp"})
@over(
    examples=16,
    always=lambda target: [{"count": 1, "size": 10, "asked": None}],
    count=st.integers(1, 4),
    size=st.sampled_from([10, 1500]),
    asked=st.sampled_from([FIRST, None]),
)
def test_a_receiver_of_mode_first_settles_at_once(
    target: Bench, count: int, size: int, asked: int | None
) -> None:
    """A producer asks for rcv-settle-mode first, or for none, which means first. The broker settles
    each delivery without waiting for the producer. On a receiver's link of mode first, none of the
    broker's transfers has rcv-settle-mode second."""
    node = target.node()
    peer = target.amqp(max_frame_size=512)
    link = peer.attach(SENDER, node, rcv_settle_mode=asked)
    for body in numbered(count, size):
        granted(target, peer, link)
        peer.publish(link, body, proves=MODE_FIRST_SETTLES)
    receiver = peer.attach(RECEIVER, node, rcv_settle_mode=asked)
    peer.flow(receiver, link_credit=count)
    got = collect(target, peer, receiver, count, quiet=0)
    target.control(len(got) == count, f"{len(got)} of {count} messages arrived; {peer.instead()}")
    modes = {transfer.get("rcv-settle-mode") for delivery in got for transfer in delivery.frames}
    words = f"rcv-settle-mode first was agreed; the transfers state {shown(modes)}"
    target.record_finding(MODE_SECOND_ILLEGAL, SECOND not in modes, words)


@case(MODE_OF_SETTLED_IGNORED, needs={"amqp"})
@over(examples=8, parts=st.integers(1, 3))
def test_the_mode_of_a_settled_transfer_is_ignored(target: Bench, parts: int) -> None:
    """A settled message with rcv-settle-mode second, on a link of mode first, is accepted."""
    node = target.node()
    peer = target.amqp()
    link = peer.attach(SENDER, node, rcv_settle_mode=FIRST)
    granted(target, peer, link)
    payload = messages.message(b"settled")
    for at in range(parts):
        last = at == parts - 1
        piece = payload[at:] if last else payload[at : at + 1]
        peer.transfer(link, piece, settled=True, rcv_settle_mode=SECOND, more=not last or None)
    receiver = peer.receiver(node, credit=1, proves=MODE_OF_SETTLED_IGNORED)
    peer.delivery(receiver, body=b"settled", proves=MODE_OF_SETTLED_IGNORED)


def _told_by_sender(link: Link, delivery: int) -> Match[Frame]:
    def accepts(reply: Frame) -> bool:
        if (
            reply.name != "disposition"
            or reply.channel != link.session.theirs
            or reply.get("role") is RECEIVER
        ):
            return False
        span = (reply.get("last", reply["first"]) - reply["first"]) % 2**32
        return bool((delivery - reply["first"]) % 2**32 <= span)

    return Match(f"disposition of the sender of delivery {delivery}", accepts)


@case(SENDERS_STATE_KEPT, needs={"amqp"})
@over(
    examples=12,
    first=st.sampled_from(["accepted", "released"]),
    then=st.lists(
        st.sampled_from(["accepted", "released", "modified", "rejected"]), min_size=1, max_size=3
    ),
)
def test_what_a_sender_told_stays(target: Bench, first: str, then: list[str]) -> None:
    """A receiver sends an outcome unsettled, and so does the broker. The receiver then sends
    different outcomes. The broker does not change its outcome for that delivery in later
    dispositions."""
    node: Node = target.node()
    fill(target, node, [b"decided"])
    peer = target.amqp()
    link = peer.receiver(node, credit=1)
    got = collect(target, peer, link, 1, quiet=0)
    target.control(len(got) == 1, f"{len(got)} messages arrived; {peer.instead()}")
    words = _told_by_sender(link, got[0].id)
    peer.flow(link, link_credit=0)
    peer.disposition(got[0], first, settled=False)
    answer = peer.watch_for(words, within=QUIET)
    state = None if answer is None else answer.kind("state")
    if state is None:
        target.record_not_applicable(SENDERS_STATE_KEPT, "the broker sent no outcome of its own")
        return
    for outcome in then:
        peer.disposition(got[0], outcome, settled=outcome == then[-1])
    if peer.ended is None and not any(map(peer.fatal, peer.inbox)):
        target.advance(QUIET)
    later = [reply.kind("state") for reply in peer.inbox if words.accepts(reply)]
    fine = all(told_state in (None, state) for told_state in later)
    detail = f"the broker sent {state}, and then {shown(later or 'nothing more')}"
    target.record_finding(SENDERS_STATE_KEPT, fine, detail)
