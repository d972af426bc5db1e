"""Opening and closing connections (2.4.1 to 2.4.3); channel and handle limits (2.7.1, 2.7.2)."""

from contextlib import nullcontext
from itertools import takewhile

from hypothesis import strategies as st

from brokerproof.harness.oracles import amqp_liveness
from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.suites.amqp10.steps import (
    LARGEST,
    QUIET,
    bystander,
    connection_refused,
    fill,
    give_cause_to_close,
    ready_sender,
)
from brokerproof.suites.api import (
    PATIENCE,
    RECONFIGURABLE,
    Bench,
    Target,
    Where,
    case,
    listed,
    ms,
    over,
    shown,
)
from brokerproof.suites.api.amqp10 import HEADER, SENDER, either, frame
from brokerproof.suites.steps.traces import frames_received, judge_trace

OPEN_BEFORE_OTHER_FRAMES = "AMQP10-OPEN-01"
FIRST_FRAME_IS_OPEN = "AMQP10-OPEN-02"
OPEN_ON_CHANNEL_0 = "AMQP10-OPEN-04"
PIPELINED_OPEN = "AMQP10-OPEN-06"
REMOTE_CHANNEL = "AMQP10-SESS-02"
CLOSE_WRITTEN = "AMQP10-CLOSE-01"
CLOSE_IS_LAST = "AMQP10-CLOSE-02"
NOTHING_AFTER_CLOSE = "AMQP10-CLOSE-09"
CLOSE_ON_CHANNEL_0 = "AMQP10-CLOSE-05"
CLOSE_PIPELINED = "AMQP10-CLOSE-06"
DROPPED_AFTER_ERROR_CLOSE = "AMQP10-CLOSE-08"
PEERS_CHANNEL_MAX = "AMQP10-CHMAX-01"
AGREED_LIMITS = "AMQP10-OPEN-05"
CHANNEL_ABOVE_MAX = "AMQP10-CHMAX-02"
CHANNEL_MAX_USABLE = "AMQP10-CHMAX-03"
HANDLE_ABOVE_MAX = "AMQP10-CHMAX-05"
PEERS_HANDLE_MAX = "AMQP10-CHMAX-04"

FRAMING = "amqp:connection:framing-error"


@case(OPEN_BEFORE_OTHER_FRAMES, FIRST_FRAME_IS_OPEN, OPEN_ON_CHANNEL_0, needs={"amqp"})
def test_open_is_the_brokers_first_frame(target: Bench) -> None:
    """After the client's open, the broker's first frame is open, on channel 0."""
    peer = target.amqp()
    assert peer.opened is not None
    for field in ("max-frame-size", "channel-max", "idle-time-out"):
        target.record_behaviour(f"amqp.{field}", peer.opened.get(field))
    properties = peer.opened.get("properties") or {}
    named = " ".join(str(properties[key]) for key in ("product", "version") if key in properties)
    target.record_behaviour("amqp.product", named)
    target.record_finding(
        OPEN_ON_CHANNEL_0,
        peer.opened.channel == 0,
        f"the broker's open arrived on channel {peer.opened.channel}",
    )
    answers = [event.command for event in frames_received(target, peer)]
    behind_headers = [name for name in answers if name != HEADER and not name.startswith("sasl-")]
    target.record_finding(
        OPEN_BEFORE_OTHER_FRAMES,
        behind_headers[0] == "open",
        f"the broker sent {', '.join(answers)}",
    )
    judge_trace(target, peer, amqp_liveness.order)


@case(PIPELINED_OPEN, REMOTE_CHANNEL, needs={"amqp"})
@over(examples=10, together=st.booleans())
def test_a_client_may_send_ahead(target: Bench, together: bool) -> None:
    """Header, open, begin and attach are pipelined, in one write or frame by frame. All are
    answered, in order."""
    node, peer = target.node(), target.amqp_peer()
    peer.authenticate(target.target.identity.login, target.target.identity.passcode)
    if together:
        target.record_note("the frames are sent at one instant")
    peer.open(answered=False)
    if not together:
        target.advance(ms(30))
    session = peer.begin(answered=False)
    link = peer.sender(node, session=session, answered=False)
    peer.expect(frame("protocol-header", id=0), proves=PIPELINED_OPEN)
    peer.expect(frame("open"), proves=PIPELINED_OPEN)
    peer.expect(frame("begin", remote_channel=0), proves=(PIPELINED_OPEN, REMOTE_CHANNEL))
    peer.expect(frame("attach", name=link.name), proves=PIPELINED_OPEN)


@case(CLOSE_WRITTEN, CLOSE_IS_LAST, NOTHING_AFTER_CLOSE, CLOSE_ON_CHANNEL_0, needs={"amqp"})
@over(examples=12, channel=st.sampled_from([0, 0, 1, 7]), error=st.booleans(), busy=st.booleans())
def test_close_is_answered_with_close_and_nothing_follows(
    target: Bench, channel: int, error: bool, busy: bool
) -> None:
    """The client closes, with an error or without, on channel 0 or another, with deliveries in
    flight or not. The broker's close arrives on channel 0 and is its last frame. Either side may
    close TCP.

    One scenario: the four requirements describe one close.
    """
    node = target.node()
    if busy:
        fill(target, node, [b"x" * 100] * 20)
    peer = target.amqp()
    if busy:
        peer.receiver(node, credit=20)
    peer.send(
        "close",
        {"error": ("amqp:internal-error", "the client gives up") if error else None},
        channel=channel,
    )
    target.wait_until(
        lambda: peer.ended is not None or any(reply.name == "close" for reply in peer.inbox),
        PATIENCE,
    )
    earlier = len(list(takewhile(lambda reply: reply.name != "close", peer.inbox)))
    close = peer.expect(frame("close"), proves=(CLOSE_WRITTEN, CLOSE_ON_CHANNEL_0))
    target.record_finding(
        CLOSE_ON_CHANNEL_0,
        close.channel == 0,
        f"the broker's close arrived on channel {close.channel}",
    )
    target.wait_until(lambda: peer.ended is not None, QUIET)
    behind = "; ".join(reply.brief() for reply in peer.inbox[earlier:])
    target.record_finding(
        (CLOSE_IS_LAST, NOTHING_AFTER_CLOSE),
        not behind,
        f"after its close, the broker sent {behind or 'nothing'}",
    )
    judge_trace(target, peer, amqp_liveness.order)


@case(CLOSE_PIPELINED, needs={"amqp"})
def test_open_and_close_may_be_sent_together(target: Bench) -> None:
    """Header, open and close are sent in one write. The broker answers with open and close on
    channel 0."""
    peer = target.amqp_peer()
    peer.authenticate(target.target.identity.login, target.target.identity.passcode)
    peer.open(answered=False)
    peer.close(answered=False)
    target.wait_until(
        lambda: peer.ended is not None or any(reply.name == "close" for reply in peer.inbox),
        PATIENCE,
    )
    opened = peer.take(frame("open"))
    closed = peer.take(frame("close"))
    target.record_finding(
        CLOSE_PIPELINED,
        opened is not None and closed is not None and opened.channel == closed.channel == 0,
        "an open and a close in one piece were answered with"
        f" {opened.brief() if opened else 'no open'} and"
        f" {closed.brief() if closed else 'no close'}",
    )


CAUSES = ("a frame's size", "a second open", "an open on channel 1")


@case(DROPPED_AFTER_ERROR_CLOSE, needs={"amqp"})
@over(
    examples=4,
    always=lambda target: [{"cause": cause, "together": True} for cause in CAUSES],
    cause=st.sampled_from(CAUSES),
    together=st.booleans(),
)
def test_after_a_close_with_an_error_frames_are_dropped(
    target: Bench, cause: str, together: bool
) -> None:
    """The client provokes a close with an error, before its open or after it, and sends further
    frames, in the same write or not. None is answered."""
    with bystander(target):
        node = target.node()
        if cause == "an open on channel 1":
            peer = target.amqp_peer()
            peer.authenticate(target.target.identity.login, target.target.identity.passcode)
        else:
            peer = target.amqp(begin=False)
        with peer.in_one_write() if together else nullcontext():
            if cause == "a second open":
                peer.send("open", peer.sent_fields)
            elif cause == "a frame's size":
                give_cause_to_close(peer)
            else:
                peer.header()
                peer.send("open", {"container-id": peer.container}, channel=1)
            session = peer.begin(5, answered=False)
            peer.sender(node, session=session, answered=False)
        closes = target.wait_until(
            lambda: peer.ended is not None or any(reply.name == "close" for reply in peer.inbox),
            PATIENCE,
        )
        if peer.ended is None:
            peer.begin(6, answered=False)
            peer.write(codec.encode_frame(b"\x40"))
        target.advance(QUIET)
        names = [reply.name for reply in peer.inbox]
        if not closes or "close" not in names:
            if cause == "a frame's size":
                peer.expect(frame("close"))
            reason = f"{cause} was answered with {listed(names)}"
            target.record_not_applicable(DROPPED_AFTER_ERROR_CLOSE, reason)
            return
        at = names.index("close")
        target.control(
            peer.inbox[at].condition is not None,
            f"the close for that frame carries an error: {peer.inbox[at].brief()}",
        )
        behind = "; ".join(reply.brief() for reply in peer.inbox[at + 1 :])
        words = f"after its close, the broker sent {behind or 'nothing'}"
        target.record_finding(DROPPED_AFTER_ERROR_CLOSE, not behind, words)


@case(PEERS_CHANNEL_MAX, AGREED_LIMITS, needs={"amqp"})
@over(examples=10, most=st.sampled_from([0, 1, 5, 65535]))
def test_the_broker_keeps_to_the_clients_limits(target: Bench, most: int) -> None:
    """The client announces a channel-max and a small max-frame-size, and begins up to three
    sessions. The broker uses no higher channel and no larger frame."""
    peer = target.amqp(channel_max=most, max_frame_size=512)
    for channel in range(1, min(most, 2) + 1):
        peer.begin(channel)
    peer.settle() if most > 2 else None
    judge_trace(target, peer, amqp_liveness.limits)
    used = [session.theirs for session in peer.sessions.values()]
    largest = max(event.size for event in frames_received(target, peer))
    target.record_finding(
        AGREED_LIMITS,
        largest <= 512,
        f"max-frame-size is 512; the largest frame has {largest} bytes",
    )
    target.record_finding(
        PEERS_CHANNEL_MAX,
        all(channel is not None and channel <= most for channel in used),
        f"with a channel-max of {most}, the broker uses the channels {shown(used)}",
    )


WINDOWS = {"next-outgoing-id": 0, "incoming-window": 1, "outgoing-window": 1}


@case(CHANNEL_MAX_USABLE, needs={"amqp"})
@over(
    examples=6,
    always=lambda target: [
        {"most": 0, "failed": True, "times": 2},
        {"most": 0, "failed": False, "times": 40},
    ],
    most=st.sampled_from([0, 1, 3]),
    failed=st.booleans(),
    times=st.sampled_from([1, 2, 5, 40]),
)
def test_a_session_that_is_over_leaves_its_channel(
    target: Bench, most: int, failed: bool, times: int
) -> None:
    """The client's open has a small channel-max, and sessions begin and end repeatedly, normally or
    with an error from the broker. After each, another session begins, with a link that the client
    attaches without waiting."""
    node, peer = target.node(), target.amqp(begin=False, channel_max=most)
    assert peer.opened is not None
    channels = 1 + min(most, peer.opened.get("channel-max", most))
    for time in range(times * channels):
        channel = time % channels
        session = peer.begin(channel, answered=False)
        link = peer.attach(SENDER, node, session=session, answered=False)
        peer.expect(frame("begin", remote_channel=channel), proves=CHANNEL_MAX_USABLE)
        peer.expect(frame("attach", name=link.name), proves=CHANNEL_MAX_USABLE)
        if failed:
            peer.send("flow", {**WINDOWS, "handle": 77}, channel=session.channel)
            ended = peer.watch_for(either(frame("end", channel=session.theirs), frame("close")))
            if ended is None or ended.name == "close":  # other cases judge that
                return
            peer.end(session, answered=False)
        else:
            peer.end(session)


def few_channels(target: Target) -> st.SearchStrategy[Where]:
    """A broker that allows few channels."""
    return st.sampled_from([0, 1, 7, 255]).map(
        lambda most: Where(
            target.identity.default_amqp_acceptor, {"acceptor": {"amqp_channel_max": most}}
        )
    )


@case(CHANNEL_ABOVE_MAX, CHANNEL_MAX_USABLE, needs={"amqp", RECONFIGURABLE})
@over(examples=12, where=few_channels, beyond=st.sampled_from([1, 2, 1000]))
def test_a_channel_above_the_announced_maximum_is_refused(
    target: Bench, where: Where, beyond: int
) -> None:
    """A session on the highest channel that the broker's open allows works. The broker answers a
    frame on a higher channel with a close with framing-error; another connection still works."""
    other = target.amqp()
    peer = target.amqp(begin=False)
    assert peer.opened is not None
    most = peer.opened.get("channel-max", 65535)
    peer.begin(most, proves=CHANNEL_MAX_USABLE)
    peer.begin(most + beyond, answered=False)
    connection_refused(
        target,
        peer,
        (CHANNEL_ABOVE_MAX,),
        f"a begin on channel {most + beyond}, where {most} is the highest,",
        [FRAMING],
    )
    other.publish(ready_sender(target, other, target.node()), b"still served")


@case(
    HANDLE_ABOVE_MAX,
    needs={"amqp"},
    harm="a thread that reads the same frame for ever, and no answer to the connections it serves",
)
def test_a_handle_above_the_announced_maximum_is_refused(target: Bench) -> None:
    """A link with the highest handle that the broker's begin allows works. The broker answers an
    attach with the next handle with a close with framing-error; another connection still works."""
    with bystander(target):
        peer = target.amqp()
        assert peer.session.answer is not None
        most = peer.session.answer.get("handle-max", 2**32 - 1)
        link = ready_sender(target, peer, target.node(), handle=most)
        peer.publish(link, b"by the highest handle")
        if most == 2**32 - 1:
            target.record_not_applicable(HANDLE_ABOVE_MAX, "the broker allows every handle")
            return
        peer.sender(target.node(), handle=most + 1, answered=False)
        connection_refused(
            target,
            peer,
            (HANDLE_ABOVE_MAX,),
            f"an attach with handle {most + 1}, where {most} is the highest,",
            [FRAMING],
        )


def firsts(target: Target) -> list[int]:
    """Return handles that a client may use first. On real brokers only 0 has been tried."""
    return [0, 1, 255, 5] if RECONFIGURABLE in target.identity.capabilities else [0]


@case(PEERS_HANDLE_MAX, needs={"amqp"})
@over(
    examples=10,
    always=lambda target: [{"most": 1, "first": firsts(target)[-1]}],
    most=st.sampled_from([0, 1, 3]),
    first=lambda target: st.sampled_from(firsts(target)),
)
def test_the_broker_attaches_no_handle_above_the_clients_maximum(
    target: Bench, most: int, first: int
) -> None:
    """The client's begin has a small handle-max, and the client attaches as many links as that
    allows. Its own handles, which only the broker's maximum limits, begin at another number. The
    broker's handles do not exceed the client's maximum."""
    peer = target.amqp(begin=False)
    peer.begin(handle_max=most)
    answer = peer.session.answer
    allowed = 2**32 - 1 if answer is None else answer.get("handle-max", 2**32 - 1)
    most = min(most, allowed)
    first = min(first, allowed - most)
    for number in range(most + 1):
        peer.sender(target.node(), handle=first + number)
    judge_trace(target, peer, amqp_liveness.limits)


@case(PEERS_HANDLE_MAX, needs={"amqp"})
@over(examples=6, most=st.sampled_from([0, 1, 3]))
def test_a_link_beyond_the_clients_handle_max_is_not_attached(target: Bench, most: int) -> None:
    """The client's begin has a small handle-max, and the client attaches one link more than that
    allows, with a handle that the broker accepts. The broker refuses the link with an error, or
    does not answer. No attach of the broker has a handle above the maximum."""
    peer = target.amqp(begin=False)
    session = peer.begin(handle_max=most)
    assert session.answer is not None
    if session.answer.get("handle-max", LARGEST) <= most:
        target.record_not_applicable(
            PEERS_HANDLE_MAX, "the broker accepts no further handle either"
        )
        return
    for _ in range(most + 1):
        peer.sender(target.node())
    link = peer.sender(target.node(), answered=False)
    answer = peer.watch_for(either(frame("attach", name=link.name), frame("end"), frame("close")))
    handle = answer.get("handle") if answer is not None and answer.name == "attach" else None
    observed = "nothing" if answer is None else answer.name
    observed = observed if handle is None else f"handle {handle}"
    words = f"handle-max was {most}; the next attach was answered with {observed}; expected none"
    target.record_finding(PEERS_HANDLE_MAX, handle is None or handle <= most, words)
