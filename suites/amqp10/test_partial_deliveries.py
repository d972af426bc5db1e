"""A delivery is split by the session's window (2.5.6, 2.6.7, 2.4.5).

The peer then stops reading, grants credit, drains, is idle, detaches, or disconnects. The message
always arrives whole once the window opens, and uses one credit. If its link has ended by then,
another link receives it.
"""

from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import QUIET, bodies, collect, fill, numbered, over_habits
from brokerproof.suites.api import PATIENCE, Bench, Clock, case, listed, ms, over
from brokerproof.suites.steps import stalls
from brokerproof.suites.steps.queues import patterned
from brokerproof.suites.steps.traces import frames_received, signs_of_life

WHOLE = "AMQP10-MSG-02"
GRANTED = "AMQP10-CREDIT-03"
DRAINED = "AMQP10-CREDIT-12"
WINDOW = "AMQP10-WIN-02"
SIGNS = "AMQP10-IDLE-20"
DEFAULT_OUTCOME = "AMQP10-OUT-03"

FRAME = 512
SIZE = 1700
"""The size of a body that needs at least four frames."""
COUNT = 4
"""Messages in the queue."""
ASKED_MS = 2000
"""The idle-time-out that the client requests."""
STALL, GRANT, DRAIN, IDLE = "stall", "grant", "drain", "idle"
DETACH, LOST = "detach", "lost"


@case(WHOLE, GRANTED, DRAINED, WINDOW, SIGNS, needs={"amqp"})
@over(
    examples=8,
    situations=lambda target: (stalls.STALLED,) if target.clock is Clock.VIRTUAL else (),
    always=lambda target: [
        {"window": 1, "credit": 2, "during": during}
        for during in ([STALL], [GRANT], [DRAIN], [IDLE], [GRANT, STALL, DRAIN])
    ],
    window=st.integers(1, 3),
    credit=st.integers(1, 3),
    during=st.lists(st.sampled_from([STALL, GRANT, DRAIN, IDLE]), max_size=2, unique=True),
)
def test_a_delivery_that_the_window_cuts_arrives_whole(
    target: Bench, window: int, credit: int, during: list[str]
) -> None:
    """A session's window ends within a delivery. The client grants credit, drains, stops reading or
    is idle, and then opens the window. Until then, empty frames keep to the idle-time-out;
    afterwards as many messages arrive as credit allows, whole. One scenario: each action interrupts
    a delivery in the middle."""
    node = target.node()
    expected = [body + patterned(SIZE) for body in numbered(COUNT)]
    fill(target, node, expected)
    peer = target.amqp(begin=False, max_frame_size=FRAME, idle_time_out=ASKED_MS)
    session = peer.begin(incoming_window=window)
    link = peer.receiver(node, credit=credit)
    peer.settle()
    target.advance(QUIET)
    arrived = len(frames_received(target, peer, "transfer"))
    detail = f"{arrived} transfers arrived within a window of {window}"
    target.require(WINDOW, arrived <= window, detail)
    target.control(arrived == window, detail)
    due = credit
    drained = DRAIN in during
    for what in during:
        if what == GRANT:
            due = 3
            peer.flow(link, link_credit=2)  # after the delivery in progress
        elif what == IDLE:
            since = target.now()
            for _ in range(8):
                target.advance(ms(ASKED_MS) // 4)
                peer.beat()
            heard = signs_of_life(target, peer, since - ms(ASKED_MS) - 1)
            gaps = [later - at for at, later in zip(heard, [*heard[1:], target.now()], strict=True)]
            most = max(gaps, default=target.now() - since)
            late = target.punctuality(ms(ASKED_MS))
            target.record_finding(
                SIGNS,
                most <= ms(ASKED_MS) + late,
                f"{most // ms(1)} ms passed without a frame from the broker; it was asked for one"
                f" every {ASKED_MS} ms",
            )
    if drained:
        peer.flow(link, link_credit=due - 1, drain=True)
    if STALL in during and target.virtual:
        with stalls.amqp(target, peer, WHOLE):
            peer.flow(session=session, incoming_window=1000)
            target.advance(stalls.STEP)
    else:
        peer.flow(session=session, incoming_window=1000)
    got = bodies(collect(target, peer, link, due))
    sizes = [len(body) for body in got]
    wrong = [body[:4] for body in got if body not in expected]
    words = f"of messages of {listed(sizes)} bytes, {listed(wrong)} arrived changed"
    target.require(WHOLE, not wrong, words)
    detail = f"{due} credits were granted; {len(got)} messages arrived; {peer.instead()}"
    target.record_finding(GRANTED, got == expected[:due], detail)
    if drained:
        used = target.wait_until(lambda: link.credit <= 0, PATIENCE)
        target.record_finding(DRAINED, used, f"a drain left {link.credit} credits")


@case(DEFAULT_OUTCOME, needs={"amqp", "amqp-redelivery"})
@over_habits(
    examples=4,
    always=lambda target: [{"window": 2, "how": how} for how in (DETACH, LOST)],
    window=st.integers(1, 3),
    how=st.sampled_from([DETACH, LOST]),
)
def test_a_delivery_that_the_window_cut_comes_back(target: Bench, window: int, how: str) -> None:
    """A session's window ends within a delivery, and then its link or its connection ends. Another
    link gets all messages, the interrupted one first."""
    node = target.node()
    expected = [body + patterned(SIZE) for body in numbered(COUNT)]
    fill(target, node, expected)
    peer = target.amqp(begin=False, max_frame_size=FRAME)
    peer.begin(incoming_window=window)
    link = peer.receiver(node, credit=2)
    peer.settle()
    target.advance(QUIET)
    if how == DETACH:
        peer.detach(link)
    else:
        peer.close_socket()
    other = target.amqp()
    got = bodies(collect(target, other, other.receiver(node, credit=9), COUNT))
    detail = f"{listed(body[:2] for body in got)} of {COUNT} messages arrived after a {how}"
    target.record_finding(DEFAULT_OUTCOME, sorted(got) == expected, detail)
