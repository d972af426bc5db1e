"""Heartbeats as 1.1 and 1.2 specify them, without any vendor's arithmetic.

The client announces cx,cy and the server sx,sy. The client sends a heartbeat every max(cx, sy) ms,
and the server every max(sx, cy) ms. If either number is zero, no heartbeats are sent in that
direction.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.harness.oracles.stomp_aftermath import heartbeats
from brokerproof.suites.api import (
    NS_PER_MS,
    Bench,
    Clock,
    Duration,
    FrameReceived,
    HeartBeatReceived,
    Instant,
    Target,
    case,
    either,
    ms,
    over,
    seconds,
)
from brokerproof.suites.api.stomp import CONNECTED, ERROR, Destination, Frame, StompPeer
from brokerproof.suites.steps.strategies import near, periods
from brokerproof.suites.steps.traces import frames_received, signs_of_life
from brokerproof.suites.stomp.byte_steps import tap

SYNTAX = {"1.1": "STOMP11-HB-01", "1.2": "STOMP12-HB-01"}
REQUESTED = {"1.1": "STOMP11-HB-03", "1.2": "STOMP12-HB-03"}
SERVER_BEATS = {"1.1": "STOMP11-HB-07", "1.2": "STOMP12-HB-07"}
AT_LEAST_EVERY = {"1.1": "STOMP11-HB-09", "1.2": "STOMP12-HB-09"}
BEAT_IS_EOL = {"1.1": "STOMP11-HB-10", "1.2": "STOMP12-HB-10"}
HEADER_OPTIONAL = {"1.1": "STOMP11-HB-04", "1.2": "STOMP12-HB-04"}
SAME_AS_ZERO = {"1.1": "STOMP11-HB-05", "1.2": "STOMP12-HB-05"}
CLIENT_BEATS = {
    "1.1": ("STOMP11-HB-02", "STOMP11-HB-06", "STOMP11-HB-08", "STOMP11-HB-12"),
    "1.2": ("STOMP12-HB-02", "STOMP12-HB-06", "STOMP12-HB-08", "STOMP12-HB-12"),
}
SILENCE = {"1.1": "STOMP11-HB-11", "1.2": "STOMP12-HB-11"}

MALFORMED = st.sampled_from([-1, -1000, "+5", " 500", "500 ", "007", "1.5", "1e3", "", "x"])
"""Heart-beat values of CONNECT that the specifications do not allow."""
HEADER = re.compile(r"\d+,\d+")
TCP, WEBSOCKET = "TCP", "WebSocket"
LONG_MS = 45_000
"""An interval beyond the idle time-outs of web servers, for virtual time."""


def transports(target: Target) -> list[str]:
    return [TCP, WEBSOCKET] if "websocket" in target.identity.capabilities else [TCP]


def answered(peer: StompPeer) -> tuple[int, int]:
    """Return the server's heart-beat pair; an absent header means 0,0 (STOMP12-HB-05)."""
    assert peer.connected is not None
    text = peer.connected.get("heart-beat") or "0,0"
    if HEADER.fullmatch(text) is None:
        return (0, 0)
    sx, sy = text.split(",")
    return int(sx), int(sy)


def judge_number_of_beats(
    target: Bench, proves: str, what: str, peer: StompPeer, since: Instant, period: Duration
) -> None:
    """Record a violation if fewer than half of the heartbeats due since then arrived. Single gaps
    are not judged: on a busy host some gap among many connections is always long, but the host's
    pauses cost few heartbeats."""
    owed = (target.now() - since) // period
    signs = sum(
        event.size if isinstance(event, HeartBeatReceived) else 1  # a busy host reads several
        for event in target.events
        if isinstance(event, (HeartBeatReceived, FrameReceived))
        and event.conn == peer.conn
        and event.at_ns > since
    )
    target.record_finding(
        proves,
        signs >= owed // 2,
        f"{signs} heartbeats or frames in {owed} periods of {period // NS_PER_MS} ms ({what})",
        expectation=target.signs_of_life("silence", since, (0, owed * period)),
    )


def judge_survival(
    target: Bench, version: str, peer: StompPeer, what: str, period: Duration
) -> bool:
    """Record a violation if the connection of a client that sent a heartbeat every ``period`` has
    ended. Return True if the connection is open."""
    alive = peer.ended is None
    target.record_finding(
        CLIENT_BEATS[version],
        alive,
        f"{what}: {'the connection is still open' if alive else peer.instead()}",
        uncertain=peer.overdue(period + target.punctuality(period)),
        expectation=peer.staying_open(),
    )
    return alive


@case(SYNTAX, REQUESTED, needs={"heart-beat"})
@over(
    examples=60,
    always=lambda target: [{"cx": 0, "cy": 0}, {"cx": 0, "cy": -1}, {"cx": -1, "cy": 0}],
    cx=near([0, 1, 500, 1000, 60_000]) | MALFORMED,
    cy=near([0, 1, 500, 1000, 60_000]) | MALFORMED,
)
def test_the_answer_is_two_numbers_and_unwanted_beats_do_not_come(
    target: Bench, version: str, cx: int | str, cy: int | str
) -> None:
    """CONNECT has a heart-beat header; one with signs or blanks may get ERROR. A heart-beat header
    in CONNECTED is two integers separated by a comma, and a client that asks for no heartbeats
    (cy=0) gets none."""
    peer = target.peer(version)
    headers = target.connect_headers(version, {"heart-beat": f"{cx},{cy}"})
    if all(isinstance(number, int) and number >= 0 for number in (cx, cy)):
        peer.connect(headers)
    else:
        peer.send("CONNECT", headers)
        peer.connected = peer.watch_for(either(CONNECTED, ERROR))
        if peer.connected is None or ERROR.accepts(peer.connected):
            return
    assert peer.connected is not None
    header = peer.connected.get("heart-beat")
    target.record_finding(
        SYNTAX[version],
        header is None or HEADER.fullmatch(header) is not None,
        f"the answer to heart-beat:{cx},{cy} was {'no header' if header is None else repr(header)}",
    )
    if cy == 0:
        target.advance(ms(1100))
        beats = heartbeats(target.events, peer.conn, 0)
        detail = f"the client wants no heartbeats (cy=0) and got {len(beats)} in 1100 ms"
        target.record_finding(REQUESTED[version], not beats, detail)


def _connected_at(target: Bench, peer: StompPeer) -> Instant:
    return frames_received(target, peer, "CONNECTED")[0].at_ns


@case(SERVER_BEATS, AT_LEAST_EVERY, BEAT_IS_EOL, needs={"heart-beat"})
@over(examples=60, cy=periods(500, 1000, 1500))
def test_the_server_beats_as_agreed(target: Bench, version: str, cy: int) -> None:
    """CONNECT asks for a heartbeat every cy ms. While the server sends no frames, line ends arrive
    at least every max(sx, cy) ms. One scenario: the requirements describe the same heartbeats."""
    peer = target.stomp(version, heart_beat=f"0,{cy}")
    sx, _ = answered(peer)
    if sx == 0:
        peer.expect_nothing(for_=ms(2 * cy + 500))
        beats = heartbeats(target.events, peer.conn, _connected_at(target, peer))
        words = f"the server promised no heartbeats (sx=0) and sent {len(beats)}"
        target.record_finding(SERVER_BEATS[version], not beats, words)
        target.record_not_applicable(
            (AT_LEAST_EVERY[version], BEAT_IS_EOL[version]), "no heartbeats were agreed on"
        )
        return
    period = ms(max(sx, cy))
    start = _connected_at(target, peer)
    received = tap(peer)
    periods = 3
    # The TTL disconnects a client that sends nothing.
    if "connection-ttl" in target.target.identity.capabilities:
        ttl = ms(target.negotiated((0, cy), version).ttl_ms)
        periods = max(1, min(periods, (ttl - ms(300)) // period))
    for number in range(1, periods + 1):
        target.expect_interval(
            AT_LEAST_EVERY[version], f"beat {number}", start, (0, number * period)
        )
    peer.expect_nothing(for_=periods * period + ms(200))
    marks = [start, *signs_of_life(target, peer, start)]
    target.record_finding(
        SERVER_BEATS[version],
        len(marks) > 1,
        f"{len(marks) - 1} heartbeats or frames in {periods} periods of {period // NS_PER_MS} ms",
        expectation=target.signs_of_life("silence", start, (0, periods * period)),
    )
    label = "longest gap between signs of life"
    target.judge_period(AT_LEAST_EVERY[version], label, marks, (0, period), until=target.now())
    # In 1.1 an end of line is only LF; in 1.2 a CR may precede it.
    others = (
        bytes(received).replace(b"\n" if version == "1.1" else b"\r\n", b"").replace(b"\n", b"")
    )
    detail = f"heartbeats of {bytes(received)[:20]!r} arrived; expected line ends"
    target.record_finding(BEAT_IS_EOL[version], not others, detail)


def _begin(peer: StompPeer, to: Destination, id: str) -> dict[str, str]:
    within = {"transaction": f"{peer.transaction}-{id}"}
    peer.request("BEGIN", within)
    return within


def _hold(peer: StompPeer, to: Destination, id: str, ack: str = "client") -> Frame:
    peer.subscribe(to, id, ack=ack)
    peer.publish(to, b"held")
    return peer.message()


STATES: Mapping[str, Callable[[StompPeer, Destination, str], object]] = {
    "a transaction is open": _begin,
    "a message waits in a transaction": lambda peer, to, id: peer.publish(
        to, b"posted", _begin(peer, to, id), receipt=False
    ),
    "a transaction was aborted": lambda peer, to, id: peer.request("ABORT", _begin(peer, to, id)),
    "a message was sent": lambda peer, to, id: peer.publish(to, b"sent"),
    "a subscription waits": lambda peer, to, id: peer.subscribe(to, id),
    "a message was consumed": lambda peer, to, id: _hold(peer, to, id, "auto"),
    "a message is unacknowledged": _hold,
    "an ACK waits in a transaction": lambda peer, to, id: peer.ack(
        _hold(peer, to, id), _begin(peer, to, id)
    ),
}
"""States in which a connection is left before a long silence."""
MOST_BEATS = 300
"""The most heartbeats that one client sends. Clients with short intervals stop earlier."""
SELDOM_MS = 10_000
"""While a case waits for the server, a client that owes no heartbeats sends one this often."""


@case(SERVER_BEATS, AT_LEAST_EVERY, needs={"heart-beat", "anycast", "transactions"})
@over(
    examples=2,
    always=lambda target: [{"cy": 500, "pairs": []}],
    cy=periods(500, 1000, 1500),
    pairs=st.lists(
        st.tuples(st.sampled_from(sorted(STATES)), st.sampled_from(sorted(STATES))), max_size=6
    ),
)
def test_the_server_beats_whatever_the_connection_was_left_in(
    target: Bench, version: str, cy: int, pairs: list[tuple[str, str]]
) -> None:
    """Connections with agreed server heartbeats are left idle, each in a different state of
    transactions, subscriptions and messages; on one of them the client sends line ends. All get
    heartbeats as agreed. One scenario: the requirements describe the same heartbeats."""
    left: list[tuple[str, StompPeer]] = []
    for names in [*((name,) for name in STATES), *pairs]:
        peer = target.stomp(version, heart_beat=f"{SELDOM_MS},{cy}")
        for number, name in enumerate(names):
            STATES[name](peer, target.destination(), str(number))
        left.append((" and ".join(names), peer))
    if WEBSOCKET in transports(target.target):
        peer = target.stomp(version, heart_beat=f"{SELDOM_MS},{cy}", over=target.websocket())
        left.append(("the connection is a WebSocket", peer))
    if not (sx := answered(left[0][1])[0]):
        reason = "no heartbeats were agreed on"
        target.record_not_applicable((SERVER_BEATS[version], AT_LEAST_EVERY[version]), reason)
        return
    period = ms(max(sx, cy))
    talker = target.stomp(version, heart_beat=f"{SELDOM_MS},{cy}")
    left.append(("the client sends ends of line", talker))
    for _, peer in left:
        peer.beat()
    since = target.now()
    for _ in range(15):
        talker.beat()
        target.advance(period // 5)
    target.advance(ms(200))
    for what, peer in left:
        beats = len(signs_of_life(target, peer, since))
        target.record_finding(
            SERVER_BEATS[version],
            beats > 0,
            f"{beats} heartbeats or frames in 3 periods of {period // NS_PER_MS} ms ({what})",
            expectation=target.signs_of_life("silence", since, (0, 3 * period)),
        )
        judge_number_of_beats(target, AT_LEAST_EVERY[version], what, peer, since, period)


@case(HEADER_OPTIONAL, SAME_AS_ZERO, needs={"heart-beat"})
def test_no_header_means_no_beats(target: Bench, version: str) -> None:
    """CONNECT without heart-beat is accepted, and the server sends no heartbeats."""
    control = target.stomp(version, heart_beat="0,500")
    peer = target.peer(version)
    peer.connect(target.connect_headers(version), proves=HEADER_OPTIONAL[version])
    zeros = target.stomp(version, heart_beat="0,0")
    assert peer.connected is not None
    target.record_behaviour("stomp.heart-beat-of-none", peer.connected.get("heart-beat"))
    start = target.now()
    target.advance(ms(1300))
    if answered(control)[0]:
        target.control(
            bool(signs_of_life(target, control, start)),
            "a connection that asked for beats should get some",
        )
    for client, words in ((peer, "no header"), (zeros, "0,0")):
        beats = heartbeats(target.events, client.conn, start)
        detail = f"with the heart-beat header {words}, {len(beats)} heartbeats arrived in 1300 ms"
        target.record_finding(SAME_AS_ZERO[version], not beats, detail)
    peer.settle()


@case(CLIENT_BEATS, needs={"heart-beat"})
@over(
    examples=40,
    always=lambda target: [
        {"cx": cx, "frames": False, "transport": transport}
        for cx in ((1000, LONG_MS) if target.clock is Clock.VIRTUAL else (1000,))
        for transport in transports(target)
    ],
    cx=periods(500, 1000),
    frames=st.booleans(),
    transport=lambda target: st.sampled_from(transports(target)),
)
def test_a_client_that_beats_as_agreed_is_not_dropped(
    target: Bench, version: str, cx: int, frames: bool, transport: str
) -> None:
    """A client sends only a line end or a frame every max(cx, sy) ms. Its session still works after
    many periods. One scenario: one surviving session shows that all four requirements are kept."""
    socket = None if transport == TCP else target.websocket()
    peer = target.stomp(version, heart_beat=f"{cx},0", over=socket)
    _, sy = answered(peer)
    period = ms(max(cx, sy, 1))
    rounds = 40 if target.virtual else min(10, max(4, int(seconds(8) // period)))
    for number in range(rounds):
        target.advance(period)
        if peer.ended is not None:
            break
        if frames:
            peer.send("BEGIN", {"transaction": f"{peer.transaction}-{number}"})
            peer.send("ABORT", {"transaction": f"{peer.transaction}-{number}"})
        else:
            peer.beat()
    detail = (
        f"{rounds} {'frames' if frames else 'ends of line'} at intervals of"
        f" {period // NS_PER_MS} ms{f' over {transport}' * (transport != TCP)}"
    )
    if judge_survival(target, version, peer, detail, period):
        peer.settle()


@case({version: ids[1] for version, ids in CLIENT_BEATS.items()}, needs={"heart-beat"})
def test_a_client_that_sends_no_beats_is_not_given_up(target: Bench, version: str) -> None:
    """Clients announce that they send no heartbeats, ask for the server's at short to long
    intervals, and are silent. Each stays connected as long as a client that agreed on no
    heartbeats."""
    rule = CLIENT_BEATS[version][1]
    control = target.stomp(version, heart_beat="0,0")
    asked = (500, 1000, 2000, 5000, 10_000, 60_000)
    clients = [(number, target.stomp(version, heart_beat=f"0,{number}")) for number in asked]
    since = target.now()
    most = seconds(600 if target.virtual else 8)
    if target.wait_until(lambda: any(peer.ended for _, peer in clients), most):
        target.advance(target.now() - since)  # the broker may end silent clients of any kind
    ended = [f"0,{number} ({peer.instead()})" for number, peer in clients if peer.ended]
    silence = (target.now() - since) // NS_PER_MS
    words = f"{'; '.join(ended) or 'none'}; a client with heart-beat:0,0: {control.instead()}"
    detail = f"clients that the broker disconnected within {silence} ms of silence: {words}"
    target.record_finding(rule, not ended or control.ended is not None, detail)


@dataclass
class Beating:
    """A client that sends ``data`` every ``pause`` and agreed on ``sends``. Once connected, it is
    due a heartbeat every ``receives`` (0 means none)."""

    peer: StompPeer
    data: bytes
    sends: Duration
    receives: Duration
    since: Instant

    def __post_init__(self) -> None:
        # Bytes of a frame are sent twice as often: then a late host does not excuse a close.
        self.pause = self.sends // 2 if self.data == b"a" else self.sends
        self.due = self.since + self.pause
        self.until = self.since + MOST_BEATS * self.sends


@case(CLIENT_BEATS, AT_LEAST_EVERY, needs={"heart-beat"})
def test_clients_of_all_intervals_live_side_by_side(target: Bench, version: str) -> None:
    """Clients agree on heartbeats in both directions at short to long intervals and send them as
    agreed, as LF, CR LF or bytes of a frame. After more than the longest interval, or after
    hundreds of its own, each session is still open and got its heartbeats. One scenario: one
    surviving session shows that the requirements are kept."""
    longest = 3_600_000 if target.virtual else 8_000
    asked = (500, 700, 1000, 1500, *(1000 * 2**power for power in range(1, 12)))
    plans = [(number, b"\n") for number in asked if number < longest]
    # In 1.2 a CR may precede the LF. Any byte is a sign of life, even part of a frame.
    plans += [(1000, b"\r\n")] * (version == "1.2") + [(1000, b"a")]
    clients = []
    # The longest first: no heartbeat is due before all are connected.
    for number, data in sorted(plans, reverse=True):
        peer = target.stomp(version, heart_beat=f"{number},{number}")
        sx, sy = answered(peer)
        sends, receives = ms(max(number, sy)), ms(max(number, sx)) * bool(sx)
        clients.append(Beating(peer, data, sends, receives, target.now()))
        if data == b"a":
            peer.write(b"SEND\nx-slow:")
    until = target.now() + ms(longest + 1000)
    while clients:
        client = min(clients, key=lambda client: client.due)
        moment = min(client.due, until)
        target.advance(max(0, moment - target.now()))
        if moment < min(client.until, until):
            client.peer.beat(client.data)
            client.due = target.now() + client.pause
            continue
        clients.remove(client)
        peer, agreed = client.peer, f"{client.data!r} every {client.pause // NS_PER_MS} ms"
        alive = judge_survival(target, version, peer, agreed, client.sends)
        if alive and client.receives:
            judge_number_of_beats(
                target, AT_LEAST_EVERY[version], agreed, peer, client.since, client.receives
            )
        peer.close_socket()


@case(SILENCE, needs={"heart-beat"})
@over(examples=60, always=lambda target: [{"cx": 1000}], cx=periods(500, 1000, 1500))
def test_silence_is_not_death_before_the_agreed_interval(
    target: Bench, version: str, cx: int
) -> None:
    """A client that agreed to send every n = max(cx, sy) ms falls silent. The server may close the
    connection, but not before n ms of silence."""
    peer = target.stomp(version, heart_beat=f"{cx},0")
    _, sy = answered(peer)
    period = ms(max(cx, sy))
    since = peer.spoke_at
    assert since is not None
    target.expect_interval(
        SILENCE[version], "the server may close the connection", since, (period, None)
    )
    patience = 4 * period + seconds(2)
    target.wait_until(lambda: peer.ended is not None, patience)
    if cx == 1000 and sy <= 1000:
        soon = peer.ended is not None and peer.ended.at - since < 5 * period
        target.record_behaviour("stomp.silent-client", "within-5-intervals" if soon else "later")
    if peer.ended is None:
        target.record_held(
            SILENCE[version],
            patience,
            f"after {patience // NS_PER_MS} ms of silence, the connection was still open",
        )
    else:
        target.judge_duration(
            SILENCE[version],
            "silence until the close",
            peer.ended.at - since,
            (period, None),
            since,
        )
