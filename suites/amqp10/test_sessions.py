"""Sessions (2.5): begin and end, errors that end only the session, and windows on both sides."""

from functools import partial

from hypothesis import strategies as st

from brokerproof.harness.oracles import amqp10_aftermath, amqp_credit, amqp_deliveries, amqp_windows
from brokerproof.harness.protocols.amqp10 import codec, messages
from brokerproof.harness.protocols.amqp10.endpoint_state import plus
from brokerproof.suites.amqp10.steps import (
    QUIET,
    bodies,
    bystander,
    collect,
    control_whole,
    fill,
    granted,
    last_flow,
    numbered,
    over_habits,
    own_windows,
    reaction,
    ready_sender,
    session_refused,
)
from brokerproof.suites.amqp10.wrapping_ids import NEAR_WRAP, wrapping
from brokerproof.suites.api import (
    PATIENCE,
    RECONFIGURABLE,
    Bench,
    Target,
    Where,
    case,
    listed,
    over,
    shown,
)
from brokerproof.suites.api.amqp10 import RECEIVER, either, ending, frame
from brokerproof.suites.steps import amounts
from brokerproof.suites.steps.strategies import near
from brokerproof.suites.steps.traces import frames_received, judge_trace

REMOTE_CHANNEL = "AMQP10-SESS-02"
SESSION_ERROR_ENDS = "AMQP10-SESS-03"
UNATTACHED_HANDLE = "AMQP10-SESS-05"
DROPPED_AFTER_SESSION_ERROR = "AMQP10-SESS-04"
HANDLE_IN_USE = "AMQP10-SESS-07"
BARE_MESSAGE = "AMQP10-MSG-02"
TRANSFER_IDS = "AMQP10-WIN-01"
REMOTE_INCOMING_WINDOW = "AMQP10-WIN-02"
WINDOW_AFTER_SENDING = "AMQP10-WIN-04"
WINDOW_FORMULA = "AMQP10-WIN-07"
WINDOW_WITHOUT_INCOMING_ID = "AMQP10-WIN-08"
FLOW_NEXT_INCOMING_ID = "AMQP10-WIN-10"
WINDOW_AFTER_RECEIVING = "AMQP10-WIN-05"
FLOW_WINDOWS = "AMQP10-WIN-11"
DELIVERY_ID_WRAPS = "AMQP10-DISP-06"
WINDOW_FROM_FLOW = "AMQP10-WIN-06"
ECHO_ANSWERED = "AMQP10-CREDIT-22"
SESSION_FLOW_WITHOUT_DELIVERY_COUNT = "AMQP10-CREDIT-15"
SESSION_FLOW_WITHOUT_CREDIT = "AMQP10-CREDIT-19"
SESSION_FLOW_WITHOUT_AVAILABLE = "AMQP10-CREDIT-20"
SESSION_FLOW_WITHOUT_DRAIN = "AMQP10-CREDIT-21"
NO_TRANSFER_WITHOUT_CREDIT = "AMQP10-CREDIT-09"


@case(REMOTE_CHANNEL, needs={"amqp"})
@over(
    examples=20,
    channels=st.lists(
        st.one_of(st.integers(0, 9), st.integers(0, 5000)), min_size=1, max_size=6, unique=True
    ),
)
def test_begin_is_answered_with_its_own_channel(target: Bench, channels: list[int]) -> None:
    """Several sessions begin on different channels, in any order. Each is answered with a begin
    that has its channel as remote-channel; all begins arrive on different channels."""
    peer = target.amqp(begin=False)
    assert peer.opened is not None
    most = peer.opened.get("channel-max", 65535)
    sessions = [
        peer.begin(channel, answered=False)
        for channel in dict.fromkeys(channel % (most + 1) for channel in channels)
    ]
    for session in sessions:
        peer.expect(frame("begin", remote_channel=session.channel), proves=REMOTE_CHANNEL)
    theirs = [session.theirs for session in sessions]
    words = f"the sessions were answered on the channels {shown(theirs)}"
    target.record_finding(REMOTE_CHANNEL, len(set(theirs)) == len(theirs), words)


NOTHING_BEHIND_END = "AMQP10-SESS-08"
UNATTACHED = "amqp:session:unattached-handle"


@case(SESSION_ERROR_ENDS, UNATTACHED_HANDLE, needs={"amqp"})
@over(examples=20, handle=st.sampled_from([1, 2, 255, 65535, 2**32 - 1]))
def test_a_flow_for_no_link_ends_the_session(target: Bench, handle: int) -> None:
    """A flow names a handle without a link. The session ends with unattached-handle, and another
    session of the connection works."""
    with bystander(target):
        peer = target.amqp()
        session = peer.session
        assert session.answer is not None
        handle = min(handle, session.answer.get("handle-max", handle))  # larger: framing-error
        if handle:
            peer.sender(target.node())
        peer.flow(session=session, handle=handle, delivery_count=0, link_credit=1)
        rules, what = (SESSION_ERROR_ENDS, UNATTACHED_HANDLE), f"a flow with handle {handle}"
        answer = session_refused(target, peer, *rules, what, UNATTACHED)
        if answer is not None:
            target.record_behaviour("amqp.flow-for-no-link", answer.name)
        if answer is None or answer.name != "end":
            return
        peer.end(session, answered=False)
        link = ready_sender(target, peer, target.node(), session=peer.begin(1))
        peer.publish(link, b"the connection goes on")


@case(NOTHING_BEHIND_END, needs={"amqp"})
def test_nothing_follows_the_end_of_a_session_that_failed(target: Bench) -> None:
    """A session whose receiver has credit fails because of a flow without a link. No frame of the
    session follows its end, even when a message is sent; another session gets that message."""
    node = target.node()
    peer = target.amqp()
    session = peer.session
    peer.receiver(node, credit=5)
    peer.flow(session=session, handle=99, delivery_count=0, link_credit=1)
    end = peer.watch_for(either(ending("end"), ending("close")))
    if end is None or end.name != "end":
        target.record_not_applicable(NOTHING_BEHIND_END, f"no session failed: {peer.instead()}")
        return
    fill(target, node, [b"later"])
    target.advance(QUIET)
    judge_trace(target, peer, amqp10_aftermath.endings)
    peer.end(session, answered=False)
    link = peer.receiver(node, session=peer.begin(1), credit=1)
    got = bodies(collect(target, peer, link, 1))
    target.control(got == [b"later"], f"another session got {got}")


@case(DROPPED_AFTER_SESSION_ERROR, needs={"amqp"})
@over_habits(examples=20, flows=st.integers(1, 3), publish=st.booleans())
def test_a_session_that_failed_drops_what_still_comes(
    target: Bench, flows: int, publish: bool
) -> None:
    """After a session fails because of a flow without a link, further flows, an attach and a
    transfer on it are not answered, and the message is in no queue."""
    peer = target.amqp()
    node = target.node()
    session = peer.session
    sender = ready_sender(target, peer, node)
    for _ in range(flows):
        peer.flow(session=session, handle=99, delivery_count=0, link_credit=1)
    peer.sender(target.node(), answered=False)
    if publish:
        peer.post(sender, b"dropped")
    end = peer.watch_for(either(ending("end", UNATTACHED), ending("end"), ending("close")))
    if end is None or end.name == "close":
        observed = reaction(peer, end)
        target.record_not_applicable(
            DROPPED_AFTER_SESSION_ERROR, f"no end of the session arrived: {observed}"
        )
        return
    other = peer.begin(1)
    receiver = peer.receiver(node, session=other, credit=1)
    peer.settle()
    late = [
        reply.brief()
        for reply in peer.inbox
        if reply.channel == end.channel and reply.name in ("attach", "disposition", "end")
    ]
    detail = f"after the end of a failed session, the broker sent {late or 'nothing'}"
    target.record_finding(DROPPED_AFTER_SESSION_ERROR, not late, detail)
    bodies_received = bodies(collect(target, peer, receiver, 1, within=QUIET))
    words = f"the queue has {listed(bodies_received)} of the messages sent after the error"
    target.record_finding(DROPPED_AFTER_SESSION_ERROR, not bodies_received, words)


@case(HANDLE_IN_USE, needs={"amqp"})
@over(examples=10, role=st.booleans())
def test_a_handle_in_use_is_refused(target: Bench, role: bool) -> None:
    """A second link is attached with the handle of the first. The broker answers with
    handle-in-use, for the session or the connection; another connection still works."""
    with bystander(target):
        peer = target.amqp()
        first = peer.sender(target.node())
        peer.attach(role, target.node(), handle=first.handle, answered=False)
        answer = peer.watch_for(either(frame("end"), frame("close"), frame("attach")))
        if answer is not None:
            target.record_behaviour("amqp.handle-in-use", answer.name)
        condition = None if answer is None else answer.condition
        observed = reaction(peer, answer)
        words = f"after an attach with a handle in use: {observed}"
        expected = "amqp:session:handle-in-use"
        detail = f"{words}; expected end ({expected})"
        target.record_finding(HANDLE_IN_USE, condition == expected, detail)


def _several_frames(target: Target) -> list[dict[str, object]]:
    """Messages of several frames, and a window that closes in the middle of a message."""
    usual = Where(target.identity.default_amqp_acceptor)
    return [{"where": usual, "window": 2, "steps": [1, 3], "count": 3, "size": 1500}]


NO_FLOW = "the broker sent no flow with its windows after its transfers"


@case(
    BARE_MESSAGE,
    TRANSFER_IDS,
    REMOTE_INCOMING_WINDOW,
    WINDOW_AFTER_SENDING,
    WINDOW_FORMULA,
    needs={"amqp"},
)
@over_habits(
    where=wrapping,
    always=_several_frames,
    examples=60,
    window=near([1, 2, 5], low=0),
    steps=st.lists(near([1, 3, 10], low=0), max_size=4),
    count=st.integers(1, 12),
    size=st.sampled_from([0, 10, 1500]),
)
def test_the_clients_window_is_used_up_and_never_passed(
    target: Bench, where: Where, window: int, steps: list[int], count: int, size: int
) -> None:
    """A session begins with a small incoming-window, and a queue has more messages than it allows.
    The broker sends exactly as many transfers as the window allows; each flow reopens it, and at
    the end all messages have arrived, in order.

    One scenario: the windows are one equation, checked after every flow.
    """
    node, sent = target.node(), numbered(count, size)
    fill(target, node, sent)
    peer = target.amqp(begin=False, max_frame_size=512)
    peer.begin(incoming_window=window)
    link = peer.receiver(node, credit=1000)

    def transfers() -> int:
        return len(frames_received(target, peer, "transfer"))

    def used_up(room: int) -> bool:
        return peer.ended is not None or transfers() >= room or len(peer.deliveries) == count

    def beyond(room: int) -> bool:
        return transfers() > room

    room = window
    for step in [*steps, 1000]:
        before = transfers()
        target.wait_until(partial(used_up, room), QUIET * 10 if room else QUIET)
        target.wait_until(partial(beyond, room), QUIET)
        everything = len(peer.deliveries) == count
        arrived = transfers()
        target.record_finding(
            (REMOTE_INCOMING_WINDOW, WINDOW_FORMULA),
            arrived <= room and (arrived == room or everything),
            f"with room for {room} transfers, {arrived} arrived ({before} before), and"
            f" {len(peer.deliveries)}"
            f" of {count} messages",
        )
        peer.flow(link, incoming_window=step, link_credit=1000)
        room = arrived + step
    got = collect(target, peer, link, count)
    damaged = sum(body not in sent for body in bodies(got))
    words = f"{len(got)} of {count} messages arrived, {damaged} of them with another body"
    if target.record_finding(BARE_MESSAGE, not damaged, words):
        in_order = bodies(got) == sent
        words += f", {'' if in_order else 'not '}in order"
        target.record_finding(TRANSFER_IDS, in_order, words)
    peer.flow(link, drain=True, link_credit=1)
    if last_flow(peer, link) is None:
        target.record_not_applicable(WINDOW_AFTER_SENDING, NO_FLOW)
    judge_trace(target, peer, amqp_windows.windows, amqp_windows.ids)


@case(WINDOW_WITHOUT_INCOMING_ID, FLOW_NEXT_INCOMING_ID, needs={"amqp"})
@over(
    where=wrapping,
    examples=20,
    windows=st.lists(st.integers(1, 4), min_size=1, max_size=3).map(sorted),
    count=st.integers(1, 6),
)
def test_a_flow_sent_ahead_of_the_begin_counts_from_the_start(
    target: Bench, where: Where, windows: list[int], count: int
) -> None:
    """Begin, attach and flows without next-incoming-id, with growing windows, are sent before the
    broker's begin arrives. The last window counts from the broker's first transfer-id; a later flow
    of the broker has next-incoming-id."""
    node = target.node()
    fill(target, node, numbered(count))
    peer = target.amqp(begin=False)
    session = peer.begin(incoming_window=0, answered=False)
    link = peer.receiver(node, session=session, answered=False)
    for window in windows:
        peer.flow(
            link,
            next_incoming_id=None,
            delivery_count=None,
            incoming_window=window,
            link_credit=100,
        )
    expected = min(windows[-1], count)
    got = collect(target, peer, link, expected)
    control_whole(target, peer, got)
    comparison = "more than" if len(got) > expected else "fewer than"
    if len(got) == expected:
        comparison = "as many as"
    detail = (
        f"flows without next-incoming-id set windows of {shown(windows)} from the start;"
        f" {len(got)} messages arrived, {comparison} the {expected} due"
    )
    if not target.record_finding(WINDOW_WITHOUT_INCOMING_ID, len(got) == expected, detail):
        return
    peer.flow(link, incoming_window=100, link_credit=count + 1 - len(got), drain=True)
    flow = last_flow(peer, link)
    judge_trace(target, peer, amqp_windows.ids)
    if flow is None:
        target.record_not_applicable(FLOW_NEXT_INCOMING_ID, NO_FLOW)
    else:
        detail = f"the broker's flow after both begins is {flow.brief()}"
        target.record_finding(FLOW_NEXT_INCOMING_ID, "next-incoming-id" in flow.fields, detail)


@case(TRANSFER_IDS, WINDOW_AFTER_RECEIVING, FLOW_WINDOWS, DELIVERY_ID_WRAPS, needs={"amqp"})
@over(examples=40, start=NEAR_WRAP, count=st.integers(1, 8), size=st.sampled_from([0, 600, 2000]))
def test_ids_of_the_client_may_run_over_the_end(
    target: Bench, start: int, count: int, size: int
) -> None:
    """The client's transfer-ids and delivery-ids begin near 2^32. All its messages are accepted
    under the right ids, and the next-incoming-id of the broker's flows is correct.

    One scenario: the four requirements are judged on the same exchange.
    """
    node, sent = target.node(), numbered(count, size)
    peer = target.amqp(begin=False)
    peer.begin(next_outgoing_id=start)
    link = peer.sender(node)
    waiting = []
    for body in sent:
        granted(target, peer, link)
        waiting.append(peer.post(link, body))
    for delivery_id in waiting:
        peer.confirmed(link.session, delivery_id, proves=DELIVERY_ID_WRAPS)
    receiver = peer.receiver(node, credit=count)
    got = collect(target, peer, receiver, count)
    words = (
        f"{len(got)} of {count} messages returned, {'' if bodies(got) == sent else 'not '}in order"
    )
    target.record_finding(TRANSFER_IDS, bodies(got) == sent, words)
    peer.flow(receiver, drain=True, link_credit=3)
    last = last_flow(peer, receiver)
    if last is not None and last.get("link-credit") == 0:
        # It answers a flow that followed all transfers, so it must count every one of them.
        id, ours = last.get("next-incoming-id"), peer.session.next_outgoing_id
        detail = f"after our last transfer, a flow reports next-incoming-id {id}; expected {ours}"
        target.record_finding(WINDOW_AFTER_RECEIVING, id == ours, detail)
    judge_trace(target, peer, amqp_windows.ids, amqp_deliveries.settlement)
    flows = frames_received(target, peer, "flow")
    detail = f"{len(flows)} flows arrived"
    target.record_finding(FLOW_WINDOWS, bool(flows), detail)
    target.record_finding(WINDOW_AFTER_RECEIVING, bool(flows), f"{len(flows)} flows arrived")


IN_ONE = -1
"""Instead of many messages, send one that needs as many frames."""


@case(WINDOW_AFTER_RECEIVING, WINDOW_FROM_FLOW, needs={"amqp"})
@over(
    where=own_windows,
    examples=24,
    always=lambda target: [
        {"where": Where(target.identity.default_amqp_acceptor), "start": 0, "settled": settled}
        | {"count": 0, "size": size}
        for settled, size in ((False, 600), (True, 0), (False, IN_ONE))
    ],
    start=NEAR_WRAP,
    count=st.integers(1, 12),
    size=st.sampled_from([0, 1500, 4000]),
    settled=st.booleans(),
)
def test_the_brokers_window_opens_again(
    target: Bench, where: Where, start: int, count: int, size: int, settled: bool
) -> None:
    """A client sends messages of one or more frames until the broker's incoming-window or credit is
    used up (all but the last may be settled), then waits for a flow. The window reopens until all
    messages are accepted. A ``count`` of 0 means more than the window, if the run's effort allows
    so many; with the ``size`` IN_ONE, one message has that many frames."""
    peer = target.amqp(begin=False)
    session = peer.begin(next_outgoing_id=start)
    link = peer.sender(target.node())
    window = session.remote_incoming_window
    most = amounts.at(target, 0, most=2_000)
    if size == IN_ONE and target.effort != "smoke":
        most = 5_000  # frames of one byte
    count = count or min(2 * window + 2, most)
    target.used_amount("transfers in a session", count)
    waiting = []
    piece_size = min(500, peer.endpoint.max_frame_size - 60)
    if size == IN_ONE:
        count, size, piece_size = 1, count, 1

    def may_send(first: bool) -> bool:
        room = session.remote_incoming_window > 0 and (link.credit > 0 or not first)
        return peer.ended is not None or room

    for number, body in enumerate(numbered(count, size)):
        payload = messages.message(body)
        pieces = [payload[at : at + piece_size] for at in range(0, len(payload), piece_size)]
        for at, piece in enumerate(pieces):
            target.wait_until(partial(may_send, first=not at), PATIENCE)
            room = session.remote_incoming_window
            fine = room > 0 and peer.ended is None
            if not fine or not at:
                where_it_is = f"message {number} of {count}, frame {at} of {len(pieces)}"
                detail = f"{where_it_is}: the broker's window has room for {room}"
                judged = (WINDOW_AFTER_RECEIVING, WINDOW_FROM_FLOW)
                target.require(judged, fine, f"{detail}; {peer.instead()}")
            if not at:
                target.control(link.credit > 0, f"the link has no credit; {peer.instead()}")
            ends_settled = settled and number < count - 1
            delivery = peer.transfer(
                link, piece, settled=ends_settled or None, more=at < len(pieces) - 1 or None
            )
        if not ends_settled:
            waiting.append(delivery)
    for delivery_id in waiting:
        peer.confirmed(session, delivery_id)
    judge_trace(target, peer, amqp_windows.windows, amqp_windows.ids)


@case(ECHO_ANSWERED, needs={"amqp"})
def test_a_flow_of_the_session_that_asks_for_an_echo_is_answered(target: Bench) -> None:
    """To a flow without a handle that sets echo, the broker should answer with a flow of the
    session."""
    peer = target.amqp()
    peer.flow(echo=True)
    answer = peer.watch_for(frame("flow"), within=QUIET * 10)
    observed = reaction(peer, answer)
    detail = f"after a flow with echo=true for a session: {observed}; expected flow"
    target.record_finding(ECHO_ANSWERED, answer is not None, detail)


NO_ECHO = "the broker did not answer a flow with echo=true (see AMQP10-CREDIT-22)"
FIELDS_OF_LINKS = {
    "delivery-count": SESSION_FLOW_WITHOUT_DELIVERY_COUNT,
    "link-credit": SESSION_FLOW_WITHOUT_CREDIT,
    "available": SESSION_FLOW_WITHOUT_AVAILABLE,
    "drain": SESSION_FLOW_WITHOUT_DRAIN,
}
"""Fields that a flow without a handle must not have, with the requirement that forbids each."""


@case(*FIELDS_OF_LINKS.values(), FLOW_WINDOWS, needs={"amqp"})
@over(examples=10, received=st.integers(0, 4))
def test_a_flow_of_the_session_has_nothing_of_a_link(target: Bench, received: int) -> None:
    """A flow without a handle sets echo, after some transfers or none. The answer has both windows
    and next-outgoing-id, and no delivery-count, link-credit, available or drain (or it is false).

    One scenario: the five requirements are read from one flow.
    """
    peer = target.amqp()
    if received:
        node = target.node()
        fill(target, node, numbered(received))
        collect(target, peer, peer.receiver(node, credit=received), received, quiet=0)
    peer.inbox = [reply for reply in peer.inbox if reply.name != "flow"]
    peer.flow(echo=True)
    answer = peer.watch_for(frame("flow", handle=None))
    if answer is None:
        target.record_not_applicable(target.cited, NO_ECHO)
        return
    words = f"a flow without a handle was answered with {answer.brief()}"
    windows = {"incoming-window", "outgoing-window", "next-outgoing-id"}
    target.record_finding(FLOW_WINDOWS, windows <= answer.fields.keys(), words)
    for name, requirement in FIELDS_OF_LINKS.items():
        is_set = answer.get(name) is not None and answer.get(name) is not False
        target.record_finding(requirement, not is_set, words)
    judge_trace(target, peer, amqp_windows.ids)


@case(REMOTE_INCOMING_WINDOW, NO_TRANSFER_WITHOUT_CREDIT, needs={"amqp"})
@over_habits(where=wrapping, examples=30, window=st.integers(1, 6), credit=st.integers(1, 6))
def test_credit_and_window_both_bind(target: Bench, where: Where, window: int, credit: int) -> None:
    """A queue has more messages than the link's credit and the session's window allow. The smaller
    of the two decides how many arrive."""
    node = target.node()
    fill(target, node, numbered(8))
    peer = target.amqp(begin=False)
    peer.begin(incoming_window=window)
    link = peer.attach(RECEIVER, node)
    peer.flow(link, link_credit=credit)
    got = collect(target, peer, link, min(window, credit))
    control_whole(target, peer, got)
    target.record_finding(
        (REMOTE_INCOMING_WINDOW, NO_TRANSFER_WITHOUT_CREDIT),
        len(got) == min(window, credit),
        f"with a window of {window} and a credit of {credit}, {len(got)} arrived",
    )
    judge_trace(target, peer, amqp_windows.windows, amqp_credit.credit)


@case(SESSION_ERROR_ENDS, REMOTE_CHANNEL, needs={"amqp"})
def test_end_is_answered_with_end(target: Bench) -> None:
    """The client ends a session, with an error and without. The broker answers with an end without
    error, and the channel can be reused, unless the broker closes the connection because of the
    client's error."""
    peer = target.amqp()
    for error in (None, ("amqp:internal-error", "the client gives up")):
        end = peer.end(error=error, proves=SESSION_ERROR_ENDS)
        assert end is not None
        detail = f"end was answered with {end.brief()}"
        target.record_finding(SESSION_ERROR_ENDS, end.condition is None, detail)
        peer.begin(answered=False)
        answer = peer.watch_for(either(frame("begin", remote_channel=0), frame("close")))
        if error and answer is not None and answer.name == "close":
            target.record_note("the broker closed the connection after the client's error")
            return
        begun = answer is not None and answer.name == "begin"
        detail = f"after a begin on the channel of an ended session: {peer.instead()}"
        target.require(REMOTE_CHANNEL, begun, detail)
        link = ready_sender(target, peer, target.node())
        peer.publish(link, codec.PREFIX)


@case(WINDOW_FROM_FLOW, needs={"amqp"})
@over(
    examples=16,
    always=lambda target: [{"start": 0, "sent": 2, "skipped": 0, "more": 1}],
    start=NEAR_WRAP,
    sent=st.integers(0, 3),
    skipped=near([1, 1000], low=0),
    more=st.integers(0, 2),
)
def test_a_flow_says_where_the_transfer_ids_are(
    target: Bench, start: int, sent: int, skipped: int, more: int
) -> None:
    """A producer sends messages of two frames, and a flow whose next-outgoing-id skips ahead. The
    broker's own flow has that number as next-incoming-id, and later transfers count from there."""
    peer = target.amqp(begin=False)
    session = peer.begin(next_outgoing_id=start)
    link = ready_sender(target, peer, target.node(), sent + more)
    for _ in range(sent):
        peer.transfer(link, messages.message(b"before")[:1], more=True)
        peer.confirmed(session, peer.transfer(link, messages.message(b"before")[1:]))
    session.next_outgoing_id = plus(session.next_outgoing_id, skipped)
    for count in (0, more):
        for _ in range(count):
            peer.publish(link, b"after")
        peer.inbox = [reply for reply in peer.inbox if reply.name != "flow"]
        peer.flow(session=session, echo=True)
        answer = peer.watch_for(frame("flow"))
        if answer is None:
            target.record_not_applicable(WINDOW_FROM_FLOW, NO_ECHO)
            return
        next_incoming_id = answer.get("next-incoming-id")
        expected = session.next_outgoing_id
        detail = (
            f"after {sent} transfers from id {start}, {skipped} skipped ids and {count} more"
            f" transfers, the broker reports next-incoming-id {next_incoming_id}"
        )
        words = f"{detail}; expected {expected}"
        target.record_finding(WINDOW_FROM_FLOW, next_incoming_id == expected, words)


@case(SESSION_ERROR_ENDS, REMOTE_CHANNEL, needs={"amqp", RECONFIGURABLE})
def test_the_channel_of_a_failed_session_is_free(target: Bench) -> None:
    """A flow without a link makes a session fail just after another session of its connection was
    sent a message. The other session settles the message. Once the client has answered the end, a
    new session on the same channel works."""
    node, peer = target.node(), target.amqp()
    other = peer.begin(1)
    link = ready_sender(target, peer, node, session=other)
    delivery = peer.post(link, b"in the same moment")
    peer.flow(session=peer.session, handle=7, delivery_count=0, link_credit=1)
    answer = peer.watch_for(either(frame("end"), frame("close")))
    observed = reaction(peer, answer)
    ended = answer is not None and answer.name == "end"
    target.require(
        SESSION_ERROR_ENDS, ended, f"after a flow for a link that does not exist: {observed}"
    )
    peer.confirmed(other, delivery, proves=SESSION_ERROR_ENDS)
    failed = peer.session
    peer.end(failed, answered=False)
    del peer.sessions[failed.channel]
    again = peer.begin(failed.channel, answered=False)
    begun = peer.watch_for(either(frame("begin", remote_channel=again.channel), frame("close")))
    observed = reaction(peer, begun)
    fine = begun is not None and begun.name == "begin"
    detail = f"after a begin on the channel of a failed session: {observed}"
    target.require(REMOTE_CHANNEL, fine, detail)
    fresh = ready_sender(target, peer, node, session=again)
    peer.publish(fresh, b"on the same channel", proves=SESSION_ERROR_ENDS)
