"""Idle time-out (2.4.5) in both directions: the empty frames that a client requests from the
broker, and the broker's time-out for a silent client. Every interval is judged at both bounds."""

from hypothesis import strategies as st

from brokerproof.harness.oracles import amqp_liveness
from brokerproof.harness.protocols.amqp10 import codec, messages
from brokerproof.harness.targets.parameters import speaking
from brokerproof.harness.targets.target import Parameters
from brokerproof.suites.amqp10.steps import (
    collect,
    fill,
    give_cause_to_close,
    reaction,
    ready_sender,
)
from brokerproof.suites.api import (
    NS_PER_MS,
    Bench,
    Clock,
    Duration,
    Instant,
    Target,
    case,
    ms,
    over,
    seconds,
)
from brokerproof.suites.api.amqp10 import AmqpPeer, frame
from brokerproof.suites.steps.silence import SPREAD, closed_at, judge_spread_closes
from brokerproof.suites.steps.strategies import waited_for
from brokerproof.suites.steps.traces import (
    beats_received,
    frames_received,
    judge_trace,
    signs_of_life,
)

PEERS_TIMEOUT_KEPT = "AMQP10-IDLE-20"
TIMEOUTS_INDEPENDENT = "AMQP10-IDLE-02"
NO_EMPTY_FRAME_BEFORE_OPEN = "AMQP10-IDLE-14"
EMPTY_FRAME_KEEPS_ALIVE = "AMQP10-IDLE-11"
ZERO_IS_NO_TIMEOUT = "AMQP10-IDLE-06"
TIMEOUT_HAS_32_BITS = "AMQP10-IDLE-18"
NO_STREAM_OF_FRAMES = "AMQP10-READING-IDLE-01"
TIMEOUT_RESTARTED_BY_FRAMES = "AMQP10-IDLE-01"
TIMEOUT_CLOSES_WITH_ERROR = "AMQP10-IDLE-03"
ANNOUNCED_IS_HALF = "AMQP10-IDLE-05"
FLOW_KEEPS_ALIVE = "AMQP10-IDLE-16"
EMPTY_FRAME_ON_ANY_CHANNEL = "AMQP10-IDLE-19"
NO_EMPTY_FRAME_AFTER_CLOSE = "AMQP10-IDLE-15"
MANY = 100
"""This many empty frames in 300 ms count as a flood."""

LONGEST_REAL_MS = 1500
LONGEST_JUDGED_MS = 70_000
DEFAULT_MS = 60_000
"""The idle-time-out of an acceptor that announces none."""
LONG_MS = 10_000
"""In real time, a case waits as few times as possible for an announced time-out longer than
this."""


def timeouts(target: Target) -> st.SearchStrategy[int]:
    """Idle time-outs that clients request, in milliseconds; in real time only short ones."""
    least = shortest(target)
    corners = [
        timeout_ms
        for timeout_ms in (500, 501, 999, 1000, 1001, 1500, 5000, 59_999, 60_000)
        if timeout_ms >= least
    ]
    if target.clock is Clock.REAL:
        short = [timeout_ms for timeout_ms in corners if timeout_ms <= LONGEST_REAL_MS] or [least]
        return st.sampled_from(waited_for(target, *short))
    return st.one_of(st.sampled_from(corners), st.integers(max(100, least), LONGEST_JUDGED_MS))


def shortest(target: Target) -> int:
    """The shortest idle-time-out in milliseconds that brokers of this family accept from a client:
    2.4.5 leaves the choice to the broker."""
    return int(target.identity.profile.parameters.get("amqp_shortest_idle_timeout_ms", 0))


@case(
    PEERS_TIMEOUT_KEPT,
    TIMEOUTS_INDEPENDENT,
    NO_EMPTY_FRAME_BEFORE_OPEN,
    EMPTY_FRAME_KEEPS_ALIVE,
    needs={"amqp"},
)
@over(examples=60, asked=timeouts, busy=st.booleans())
def test_the_broker_gives_the_signs_of_life_that_the_client_asked_for(
    target: Bench, asked: int, busy: bool
) -> None:
    """The client's open has an idle-time-out. For three times that period, whether the client is
    busy or not, the broker is never silent for longer than the time-out.

    One scenario: the four requirements are judged on the same empty frames.
    """
    peer = target.amqp(idle_time_out=asked)
    since = target.now()
    announced = own_time_out(peer)
    for _ in range(6):
        target.advance(ms(asked) // 2)
        if busy or (announced and ms(asked) * 2 > ms(announced)):
            peer.beat()
    end = target.now() if peer.ended is None else peer.ended.at
    signs = [since, *(at for at in signs_of_life(target, peer) if since < at <= end)]
    target.judge_period(PEERS_TIMEOUT_KEPT, "longest silence", signs, (0, ms(asked)), until=end)
    judge_trace(target, peer, amqp_liveness.order)
    words = f"the broker sent {'an' if peer.opened else 'no'} open"
    target.record_finding(NO_EMPTY_FRAME_BEFORE_OPEN, peer.opened is not None, words)
    seen = beats(target, peer)
    detail = f"{seen} empty frames arrived in {3 * asked} ms"
    target.record_finding(EMPTY_FRAME_KEEPS_ALIVE, seen > 0, detail)
    detail = f"the client asked for {asked} ms and the broker for {announced} ms"
    target.record_finding(TIMEOUTS_INDEPENDENT, announced != asked or seen > 0, detail)


@case(PEERS_TIMEOUT_KEPT, TIMEOUT_RESTARTED_BY_FRAMES, needs={"amqp"})
@over(
    examples=3,
    always=lambda target: [{"asked": max(LONG_MS + 2000, shortest(target))}],
    asked=timeouts,
)
def test_signs_of_life_go_on_whatever_a_connection_holds(target: Bench, asked: int) -> None:
    """Some connections sent a message, hold a delivery or part of one, or did nothing. They then
    send only empty frames, for more than twice the time-outs of both sides. The broker keeps them
    open and is never silent for longer than the client requested."""
    peers = {state: in_state(target, state, asked) for state in STATES}
    since = target.now()
    announced = max(map(own_time_out, peers.values()))
    most = asked * 5 // 2
    if announced <= LONG_MS:
        most = max(most, announced * 5 // 2)
    step = ms(min(asked, announced or asked) // 3)
    while target.now() - since < ms(most):
        target.advance(step)
        for peer in peers.values():
            if peer.ended is None:
                peer.beat()
    over = target.now()  # judging reads nothing more
    for state, peer in peers.items():
        end = over if peer.ended is None else peer.ended.at
        signs = [since, *(at for at in signs_of_life(target, peer) if since < at <= end)]
        label = f"longest silence of the broker towards a client that {state}"
        target.judge_period(PEERS_TIMEOUT_KEPT, label, signs, (0, ms(asked)), until=end)
        alive = peer.ended is None and not any(reply.name == "close" for reply in peer.inbox)
        detail = (
            f"a client that {state} sent an empty frame every {step // NS_PER_MS} ms; the"
            f" broker's idle-time-out is {announced} ms"
        )
        uncertain = peer.overdue(ms(announced)) if announced else None
        words = f"{detail}; {peer.instead()}"
        target.record_finding(TIMEOUT_RESTARTED_BY_FRAMES, alive, words, uncertain=uncertain)


SENT = "has sent a message"
STATES = ("holds nothing", SENT, "holds a delivery", "has settled one", "has sent half a message")


def in_state(target: Bench, state: str, asked: int) -> AmqpPeer:
    """Return a connection in one of :data:`STATES`. Control: the connection reaches this state."""
    peer, node = target.amqp(idle_time_out=asked), target.node()
    if "sent" in state:
        link = ready_sender(target, peer, node)
        if state == SENT:
            peer.publish(link, b"sent")
        else:
            peer.transfer(link, messages.message(b"half")[:-2], more=True)
    elif state != "holds nothing":
        fill(target, node, [b"held"])
        link = peer.receiver(node, credit=1)
        got = collect(target, peer, link, 1, quiet=0)
        target.control(len(got) == 1, f"no message arrived; {peer.instead()}")
        if state == "has settled one":
            peer.disposition(got[0])
    return peer


def own_time_out(peer: AmqpPeer) -> int:
    """Return the broker's own idle-time-out in milliseconds; 0 if the broker has none."""
    assert peer.opened is not None
    return int(peer.opened.get("idle-time-out", 0))


def announced_by(target: Bench, peer: AmqpPeer, acceptor: str) -> int:
    """Return the broker's idle-time-out in milliseconds. Control: there is one."""
    announced = own_time_out(peer)
    detail = f"acceptor {acceptor} should announce an idle-time-out; it announced {announced}"
    target.control(announced > 0, detail)
    return announced


@case(ZERO_IS_NO_TIMEOUT, needs={"amqp"})
def test_a_time_out_of_zero_is_none(target: Bench) -> None:
    """One client's open has an idle-time-out of 0, another's has none. The broker accepts both, and
    in two seconds sends about as many empty frames to one as to the other."""
    peer, other = target.amqp(idle_time_out=0), target.amqp(idle_time_out=None)
    target.advance(seconds(2))
    seen, without = beats(target, peer), beats(target, other)
    for asked, one in ((0, peer), (None, other)):
        words = f"an idle-time-out of {asked} was accepted; {one.instead()}"
        target.record_finding(ZERO_IS_NO_TIMEOUT, one.ended is None, words)
    words = f"{seen} empty frames arrived; the idle-time-out is 0, and without one {without} did"
    target.record_finding(ZERO_IS_NO_TIMEOUT, seen <= 2 * without + 2, words)


@case(TIMEOUT_HAS_32_BITS, NO_STREAM_OF_FRAMES, needs={"amqp"})
@over(examples=8, asked=st.sampled_from([2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1]))
def test_a_time_out_of_weeks_is_a_number_of_32_bits(target: Bench, asked: int) -> None:
    """The client's open has an idle-time-out of 24 to 49 days, up to 2^32 - 1 ms. The broker
    accepts it and sends at most one empty frame in 300 ms."""
    peer = target.amqp_peer()
    peer.authenticate(target.target.identity.login, target.target.identity.passcode)
    # A broker may refuse it by closing before its own open. That is an answer to judge, not a
    # failed control.
    peer.open(answered=False, idle_time_out=asked)
    peer.expect(frame("open"), proves=TIMEOUT_HAS_32_BITS)
    # Stop reading once a flood is recognised, which would take time from other cases.
    target.wait_until(lambda: beats(target, peer) >= MANY, target.world.of_host(ms(300)))
    seen = beats(target, peer)
    count = seen if seen < MANY else "hundreds of"
    taken = peer.ended is None and not any(reply.name == "close" for reply in peer.inbox)
    detail = f"an idle-time-out of {asked} was accepted; {peer.instead()}"
    target.record_finding(TIMEOUT_HAS_32_BITS, taken, detail)
    detail = f"{count} empty frames arrived in 300 ms; the idle-time-out is {asked} ms"
    target.record_finding(NO_STREAM_OF_FRAMES, seen <= 1, detail)


def beats(target: Bench, peer: AmqpPeer) -> int:
    return len(beats_received(target, peer))


KEEPING = ("empty", "empty on another channel", "flow")
"""Frames that keep a connection open."""


def shorts(target: Target) -> list[str]:
    """Acceptors that close silent connections soon; in virtual time, all that close them
    eventually."""
    known = speaking(target.acceptors(), "AMQP")

    def limit(parameters: Parameters) -> int:
        limit_ms = parameters.get("amqp_idle_timeout_ms")
        return int(limit_ms) if isinstance(limit_ms, int) else DEFAULT_MS

    names = [
        name for name, parameters in known.items() if 0 < limit(parameters) <= _longest(target)
    ]
    return sorted(names) or ["amqp"]


def short_acceptors(target: Target) -> st.SearchStrategy[str]:
    return st.sampled_from(shorts(target))


def _longest(target: Target) -> int:
    return waited_for(target, 3000)[-1] if target.clock is Clock.REAL else LONGEST_JUDGED_MS


@case(
    TIMEOUT_RESTARTED_BY_FRAMES,
    TIMEOUT_CLOSES_WITH_ERROR,
    ANNOUNCED_IS_HALF,
    needs={"amqp", "amqp-idle-timeout"},
)
@over(examples=20, acceptor=short_acceptors, pause=st.integers(0, 900))
def test_a_silent_client_is_closed_in_time_and_not_before(
    target: Bench, acceptor: str, pause: int
) -> None:
    """The broker's open has an idle-time-out, and the client falls silent. The broker must not
    close before that time. It should close at twice that time, not earlier, with an error.

    One scenario: the three requirements describe one close. Sending a close frame is only a SHOULD
    here (2.4.5), although 2.4.3 requires one elsewhere.
    """
    peer = target.amqp(acceptor=acceptor)
    announced = announced_by(target, peer, acceptor)
    target.advance(ms(pause * announced // 1000))
    peer.beat()
    since = peer.spoke_at
    assert since is not None
    bounds = (2 * ms(announced), noticed_by(target, announced, 2))
    target.expect_interval(
        (TIMEOUT_RESTARTED_BY_FRAMES, ANNOUNCED_IS_HALF),
        "the end of the silent connection",
        since,
        bounds,
    )
    patience = max(bounds[1], longest_silence(target.target) * ms(announced), 5 * ms(announced))
    patience += target.world.of_host(seconds(5))
    target.wait_until(
        lambda: peer.ended is not None or any(reply.name == "close" for reply in peer.inbox),
        patience,
    )
    close = peer.take(frame("close"))
    silence = target.now() - since
    if close is None and peer.ended is None:
        target.record_finding(
            (TIMEOUT_RESTARTED_BY_FRAMES, TIMEOUT_CLOSES_WITH_ERROR, ANNOUNCED_IS_HALF),
            False,
            f"the client was silent for {silence // NS_PER_MS} ms, but not disconnected",
        )
        return
    target.judge_duration(
        TIMEOUT_RESTARTED_BY_FRAMES, "silence before the end", silence, (ms(announced), None), since
    )
    target.judge_duration(
        ANNOUNCED_IS_HALF,
        "silence before the end, which should be twice the announced idle-time-out",
        silence,
        bounds,
        since,
    )
    target.record_behaviour("amqp.end-of-silent-client", "close" if close else "cut")
    target.record_finding(
        TIMEOUT_CLOSES_WITH_ERROR,
        close is not None and close.condition is not None,
        f"after the silence: {reaction(peer, close)}; expected close with an error",
    )


@case(ANNOUNCED_IS_HALF, needs={"amqp", "amqp-idle-timeout"})
def test_a_broker_with_timers_of_its_own_is_held_to_them(target: Bench) -> None:
    """Eight clients fall silent, spread over a check interval. The broker closes each one after
    twice the announced time-out, at most one check interval later; the closes reveal the
    interval."""
    acceptor = shorts(target.target)[0]
    peers = [target.amqp(acceptor=acceptor) for _ in range(SPREAD)]
    announced = announced_by(target, peers[0], acceptor)
    check = check_interval(target)
    interval = ms(announced) if check is None else check
    bounds = (2 * ms(announced), noticed_by(target, announced, longest_silence(target.target)))
    judge_spread_closes(
        target,
        peers,
        AmqpPeer.beat,
        ANNOUNCED_IS_HALF,
        bounds,
        interval,
        rounding=ms(1),
        closed=lambda peer: close_written_at(target, peer),
    )


def close_written_at(target: Bench, peer: AmqpPeer) -> Instant | None:
    """Return when the broker's close arrived (the broker then waits for the client's close) or when
    the connection ended without a close; None if neither has happened."""
    closes = frames_received(target, peer, "close")
    return closes[0].at_ns if closes else closed_at(peer)


def longest_silence(target: Target) -> int:
    """Brokers of this family close a silent client after at most this many announced time-outs.
    2.4.5 only says that it should be two."""
    return int(target.identity.profile.parameters.get("amqp_idle_announced_most", 2))


def check_interval(target: Bench) -> Duration | None:
    """The interval at which the broker checks for silent clients; None if no document states it."""
    check = target.parameters("amqp").get("connection_ttl_check_interval_ms")
    return ms(int(check)) if isinstance(check, int) else None


def noticed_by(target: Bench, announced: int, times: int) -> Duration:
    """The longest silence of a client before a broker closes it after this many announced
    time-outs. A broker checks at intervals of its own, which may equal the announced time-out."""
    if check_interval(target) is None:
        latest = ms((times + 1) * announced)
    else:
        _, latest = target.silence_interval(times * announced, "amqp")
    return latest + ms(1)  # half of an odd number of milliseconds is not announced exactly


@case(
    TIMEOUT_RESTARTED_BY_FRAMES,
    FLOW_KEEPS_ALIVE,
    EMPTY_FRAME_ON_ANY_CHANNEL,
    needs={"amqp", "amqp-idle-timeout"},
)
@over(
    examples=20,
    # Each kind has its own requirement; a few draws might miss one.
    always=lambda target: [{"acceptor": shorts(target)[0], "kind": kind} for kind in KEEPING],
    acceptor=short_acceptors,
    kind=st.sampled_from(KEEPING),
)
def test_frames_that_keep_coming_keep_the_connection(
    target: Bench, acceptor: str, kind: str
) -> None:
    """A client sends a frame every nine tenths of the announced time-out: an empty frame on channel
    0 or another, or a flow of its session. It sends seven, or three if the time-out is long, and
    stays connected, even beyond twice the time-out."""
    peer = target.amqp(acceptor=acceptor)
    announced = announced_by(target, peer, acceptor)
    assert peer.opened is not None
    other = min(9, peer.opened.get("channel-max", 9))
    for _ in range(7 if target.virtual or announced <= LONG_MS else 3):
        target.advance(ms(announced) * 9 // 10)
        if peer.ended is not None:
            break
        match kind:
            case "empty":
                peer.beat()
            case "flow":
                peer.flow()
            case _:
                peer.beat(codec.encode_frame(b"", channel=other))
    judged: tuple[str, ...] = (TIMEOUT_RESTARTED_BY_FRAMES,)
    if kind == "flow":
        judged += (FLOW_KEEPS_ALIVE,)
    elif kind != "empty" and other:
        judged += (EMPTY_FRAME_ON_ANY_CHANNEL,)
    alive = peer.ended is None and not any(reply.name == "close" for reply in peer.inbox)
    target.require(
        judged,
        alive,
        f"the client sent a frame ({kind}) every {announced * 9 // 10} ms; {peer.instead()}",
        uncertain=peer.overdue(ms(announced)),
    )
    peer.settle()


def short(target: Target) -> st.SearchStrategy[int]:
    """Short idle-time-outs."""
    return st.sampled_from(
        sorted({max(timeout_ms, shortest(target)) for timeout_ms in waited_for(target, 200, 500)})
    )


@case(NO_EMPTY_FRAME_AFTER_CLOSE, needs={"amqp"})
@over(examples=8, asked=short, ours=st.booleans())
def test_no_sign_of_life_comes_behind_close(target: Bench, asked: int, ours: bool) -> None:
    """A client that gets empty frames closes, or provokes a close with an error and leaves it
    unanswered. No empty frame follows the broker's close."""
    peer = target.amqp(idle_time_out=asked)
    for _ in range(4):
        target.advance(ms(asked) // 2)
        peer.beat()
    target.control(beats(target, peer) > 0, f"no empty frame arrived in {2 * asked} ms")
    if ours:
        peer.close()
    else:
        give_cause_to_close(peer)
        peer.expect(frame("close"))
    before = beats(target, peer)
    target.advance(ms(3 * asked))
    late = beats(target, peer) - before
    words = f"{late} empty frames arrived in {3 * asked} ms after the broker's close"
    target.record_finding(NO_EMPTY_FRAME_AFTER_CLOSE, not late, words)
