"""Connection TTL of the Artemis family: the answer in CONNECTED, and the close after a silence.

The arithmetic is in harness/oracles/liveness.py with its sources. Both bounds of every interval are
judged: closing early is as wrong as never closing.
"""

from collections.abc import Callable, Iterator

from hypothesis import strategies as st

from brokerproof.harness.oracles.liveness import negotiate
from brokerproof.harness.targets.parameters import speaking
from brokerproof.harness.targets.target import Overrides
from brokerproof.suites.api import (
    RECONFIGURABLE,
    Bench,
    Clock,
    Instant,
    Requirements,
    Target,
    Where,
    case,
    ms,
    over,
    seconds,
)
from brokerproof.suites.api.stomp import ERROR, StompPeer
from brokerproof.suites.steps import stomp_combinations as combinations
from brokerproof.suites.steps.combinations import Row
from brokerproof.suites.steps.silence import (
    GRACE,
    SPREAD,
    judge_close,
    judge_spread_closes,
    unread_for,
)
from brokerproof.suites.steps.stomp_combinations import CONNECT
from brokerproof.suites.steps.strategies import (
    LONGEST_REAL_TTL_MS,
    Silence,
    places,
    real_ttls,
    silences,
    waited_for,
)

SERVER_BEATS = "ARTEMIS-STOMP-ttl-9"
MAY_SEND_ERROR = "STOMP12-ERR-01"

DEFAULT = "ARTEMIS-STOMP-ttl-2"
PRODUCT = "ARTEMIS-STOMP-ttl-3"
BOUNDS = "ARTEMIS-STOMP-ttl-4"
UPPER = "ARTEMIS-STOMP-ttl-5"
LOWER = "ARTEMIS-STOMP-ttl-6"
FLOOR = "ARTEMIS-STOMP-ttl-7"
TRICKLE = "ARTEMIS-STOMP-ttl-8"

LONGEST_JUDGED_MS = 10**11
"""Three years. A longer TTL is judged only by CONNECTED's header and by whether the connection is
still open after a day."""


def connect(target: Bench, plan: Silence) -> StompPeer:
    text = None if plan.heart_beat is None else f"{plan.heart_beat[0]},{plan.heart_beat[1]}"
    return target.stomp(plan.version, acceptor=plan.where.acceptor, heart_beat=text)


def regime(target: Bench, plan: Silence) -> tuple[str, ...]:
    """Return the statements of the chapter that determine this TTL."""
    parameters = target.parameters(plan.where.acceptor)
    if plan.version == "1.0" or plan.heart_beat is None or plan.heart_beat[0] == 0:
        return (DEFAULT,)
    ttl = target.negotiated(plan.heart_beat, plan.version, plan.where.acceptor).ttl_ms
    product = plan.heart_beat[0] * float(parameters["heart_beat_to_connection_ttl_modifier"] or 0)
    if product < int(parameters["connection_ttl_min_ms"] or 0):
        return (BOUNDS, LOWER)
    if product > ttl + 1:
        return (BOUNDS, UPPER)
    return (PRODUCT,)


def judge_silence(
    target: Bench, peer: StompPeer, requirements: tuple[str, ...], ttl_ms: int
) -> None:
    """Wait for the close of a connection that has fallen silent, and judge when it happened."""
    since = peer.spoke_at
    assert since is not None
    low, high = target.silence_interval(ttl_ms, peer.acceptor)
    bounds = low, high + unread_for(target, peer)
    judge_close(target, peer, requirements, since, bounds, f"a TTL of {ttl_ms} ms")


def corners(target: Target) -> Iterator[dict[str, Silence]]:
    """For every acceptor: no client heartbeats; heartbeats far below, within and far above the
    bounds; and a STOMP 1.0 client, whose header is ignored."""
    # The last example runs first and is the one that a failure shows, so the strangest come first.
    if target.clock is Clock.VIRTUAL:  # two months of silence make the product exceed 32 bits
        yield {"plan": Silence(Where(target.identity.default_acceptor), "1.2", (3 * 10**9, 0))}
    if (
        RECONFIGURABLE in target.identity.capabilities
    ):  # the product is between a maximum and a higher minimum
        bounds = {"connection_ttl_min_ms": 5000, "connection_ttl_max_ms": 3000}
        where = Where(target.identity.default_acceptor, {"acceptor": bounds})
        yield {"plan": Silence(where, "1.2", (2000, 0))}
    judged = range(100_001) if target.clock is Clock.VIRTUAL else real_ttls(target)
    interval_ms = waited_for(target, 1000)[0]
    for acceptor, parameters in speaking(target.acceptors(), "STOMP").items():
        for heart_beat in (None, (0, 0), (1, 1), (interval_ms, 501), (10**6, 0)):
            if negotiate(parameters, heart_beat).ttl_ms in judged:
                yield {"plan": Silence(Where(acceptor), "1.2", heart_beat)}
        if negotiate(parameters, (900, 0), "1.0").ttl_ms in judged:
            yield {"plan": Silence(Where(acceptor), "1.0", (900, 0))}


def out_of_reach(target: Bench) -> set[str]:
    """Return the statements whose TTLs are all too long for a case to wait."""
    plans = [example["plan"] for example in corners(target.target)]
    return {DEFAULT, BOUNDS, UPPER, LOWER}.difference(*(regime(target, plan) for plan in plans))


@case(DEFAULT, PRODUCT, BOUNDS, UPPER, LOWER, FLOOR, needs={"connection-ttl"})
@over(examples=334, least=200, always=corners, plan=silences)
def test_the_answer_is_the_arithmetic_and_silence_ends_inside_its_interval(
    target: Bench, plan: Silence
) -> None:
    """CONNECT has any version and heart-beat header, on an acceptor with any parameters. CONNECTED
    has the computed heartbeat, and the silent connection is closed inside its interval. One
    scenario: the requirements are one formula."""
    peer = connect(target, plan)
    assert peer.connected is not None
    expected = target.negotiated(plan.heart_beat, plan.version, plan.where.acceptor)
    rules = regime(target, plan)
    if plan.heart_beat is not None and plan.version != "1.0" and plan.heart_beat[1] != 0:
        rules_for_header: tuple[str, ...] = (*rules, FLOOR)
    else:
        rules_for_header = rules
    if plan.heart_beat is not None and plan.version != "1.0":
        header = peer.connected.get("heart-beat")
        target.record_finding(
            rules_for_header,
            header == expected.header,
            f"heart-beat:{plan.heart_beat[0]},{plan.heart_beat[1]} was answered with {header!r};"
            f" expected {expected.header!r}",
        )
    if expected.ttl_ms > LONGEST_JUDGED_MS:
        target.advance(seconds(86_400))
        words = f"a day of silence under a TTL of {expected.ttl_ms} ms: {peer.instead()}"
        target.record_finding(rules, peer.ended is None, words)
    else:
        judge_silence(target, peer, rules, expected.ttl_ms)
    if not target.virtual:
        for requirement in out_of_reach(target):
            target.record_not_applicable(
                requirement,
                f"no acceptor has a TTL of at most {real_ttls(target.target)[-1]} ms by this rule",
            )


@case(PRODUCT, needs={"connection-ttl", "durable-subscriptions"})
@over(
    examples=5, always=lambda target: [{"row": row} for row in CONNECT.rows()], row=CONNECT.drawn()
)
def test_the_ttl_is_the_same_whatever_else_a_client_asks_for(target: Bench, row: Row) -> None:
    """A client whose CONNECT has other options besides heart-beat falls silent. CONNECTED has the
    computed heartbeat, and the connection is closed inside its interval."""
    version = str(row[combinations.VERSION])
    beats = int(str(row[combinations.BEATS])), int(str(row[combinations.ASKS]))
    headers = {"heart-beat": f"{beats[0]},{beats[1]}"}
    if row[combinations.OFFERS] is not None:
        headers["accept-version"] = f"1.0,{version}"
    if row[combinations.CLIENT_ID] is not None:
        headers["client-id"] = target.fresh_name()
    if row[combinations.LENGTH] is not None:
        headers["content-length"] = "0"
    peer = target.peer(version)
    fields = target.connect_headers(version, headers)
    connected = peer.connect(fields, command=str(row[combinations.COMMAND]))
    if row[combinations.LISTENS] is not None:
        peer.subscribe(target.destination())
    expected = target.negotiated(beats, version, peer.acceptor)
    words = ", ".join(f"{name} {value}" for name, value in row.items() if value)
    plan = Silence(Where(peer.acceptor), version, beats)
    if regime(target, plan) != (PRODUCT,):
        target.record_not_applicable(PRODUCT, "the acceptor's bounds rule these intervals")
        return
    header = connected.get("heart-beat")
    detail = f"{words}: the answer is {header!r}; expected {expected.header!r}"
    target.record_finding(PRODUCT, header == expected.header, detail)
    judge_silence(target, peer, (PRODUCT,), expected.ttl_ms)


@case(DEFAULT, PRODUCT, BOUNDS, UPPER, LOWER, FLOOR, needs={"connection-ttl"})
def test_the_examples_of_the_chapter(target: Bench) -> None:
    """CONNECTED answers the manual's example heart-beats with half the resulting TTL: 0,1000 for
    1000,0, and 0,15000 for 20000,0 with a maximum of 30000. One scenario: the requirements are one
    formula."""
    examples: list[tuple[str, str, str, Requirements]] = [
        ("stomp", "1000,0", "0,1000", PRODUCT),
        ("stomp", "20000,0", "0,20000", PRODUCT),
        ("stomp", "1,0", "0,500", (BOUNDS, LOWER)),
        ("stomp", "0,0", "0,30000", DEFAULT),
        ("stomp", "1000,1", "500,1000", FLOOR),
        ("stomp", "1000,501", "501,1000", FLOOR),
        ("ttl-max-30000", "20000,0", "0,15000", (BOUNDS, UPPER)),
        ("ttl-min-max", "0,0", "0,500", DEFAULT),
        ("ttl-min-max", "1,0", "0,750", (BOUNDS, LOWER)),
        ("ttl-min-max", "20000,0", "0,1500", (BOUNDS, UPPER)),
        ("ttl-modifier-1", "5000,0", "0,5000", PRODUCT),
        ("ttl-modifier-1.5", "5000,0", "0,5000", PRODUCT),
    ]
    known = target.target.acceptors(target.overrides)
    for acceptor, asked, answer, requirement in examples:
        if acceptor not in known:
            target.record_note(f"the target has no acceptor {acceptor}")
            continue
        if (
            asked.startswith("0,")
            and known[acceptor]["connection_ttl_override_ms"] != -1
            and acceptor == "stomp"
        ):
            target.record_note(
                "connection-ttl-override replaces the default that the chapter's example shows"
            )
            continue
        peer = target.stomp("1.2", acceptor=acceptor, heart_beat=asked)
        assert peer.connected is not None
        header = peer.connected.get("heart-beat")
        words = f"{acceptor}: heart-beat:{asked} was answered with {header!r}; expected {answer!r}"
        target.record_finding(requirement, header == answer, words)
    judged = {finding.requirement for finding in target.example_record.findings}
    for requirement in target.cited:
        if requirement not in judged:
            target.record_not_applicable(
                requirement, "the target has no acceptor with the parameters of an example"
            )


def short_ttls(target: Target) -> st.SearchStrategy[Silence]:
    """Silences of at most four seconds of real time: several fit into one example."""
    longest = LONGEST_REAL_TTL_MS * target.identity.clock_rate
    return silences(target).filter(lambda plan: 4 <= _ttl(target, plan) <= longest)


def _ttl(target: Target, plan: Silence) -> int:
    parameters = target.acceptors(plan.where.overrides)[plan.where.acceptor]
    return negotiate(parameters, plan.heart_beat, plan.version).ttl_ms


@case(TRICKLE, needs={"connection-ttl"})
@over(examples=100, plan=short_ttls, kind=st.sampled_from(["eol", "frame", "part of a frame"]))
def test_any_data_within_the_ttl_keeps_the_connection(
    target: Bench, plan: Silence, kind: str
) -> None:
    """A client sends some data, even one byte of an unfinished frame, just before each TTL expires.
    The connection stays open, and is closed inside its interval once the client is silent."""
    peer = connect(target, plan)
    ttl = target.negotiated(plan.heart_beat, plan.version, plan.where.acceptor).ttl_ms
    # In real time the last millisecond cannot be hit: hosts are late.
    pause = ms(ttl) - 1 if target.virtual else ms(ttl) * 3 // 4
    unfinished = iter(b"SEND\ndestination:never-finished\n" * 4)
    for number in range(12 if target.virtual else 4):
        target.advance(pause)
        if peer.ended is not None:
            break
        if kind == "eol":
            peer.beat()
        elif kind == "frame":
            peer.send("BEGIN", {"transaction": f"{peer.transaction}-{number}"})
        else:
            peer.write(bytes([next(unfinished)]))
    spoke = peer.spoke_at or 0
    target.record_finding(
        TRICKLE,
        peer.ended is None,
        f"with data every {pause / ms(1):g} ms and a TTL of {ttl} ms, "
        + (
            "the connection is still open"
            if peer.ended is None
            else f"the broker closed {(peer.ended.at - spoke) / ms(1):g} ms after the last data"
        ),
        uncertain=peer.overdue(ms(ttl)),
    )
    if peer.ended is None:
        judge_silence(target, peer, (TRICKLE,), ttl)


@case(DEFAULT, needs={"connection-ttl", RECONFIGURABLE})
def test_the_acceptor_wins_over_the_broker_wide_override(target: Bench) -> None:
    """A client offers no heartbeats. Its TTL is the acceptor's connectionTtl, else
    connection-ttl-override, else a minute."""
    for acceptor, override, expected in [
        (None, -1, 60_000),
        (None, 5000, 5000),
        (3000, 5000, 3000),
        (3000, -1, 3000),
    ]:
        overrides: Overrides = {
            "acceptor": {"connection_ttl_ms": acceptor},
            "broker": {"connection_ttl_override_ms": override},
        }
        inner = Bench(
            target.target,
            target.cited,
            label="override",
            overrides=overrides,
            example_record=target.example_record,
        )
        target.record_note(f"connectionTtl {acceptor}, connection-ttl-override {override}")
        for version in ("1.0", "1.2"):
            peer = inner.stomp(version)
            judge_silence(inner, peer, (DEFAULT,), expected)


def _heard_since(peer: StompPeer, instant: Instant | None) -> Callable[[], bool]:
    return lambda: peer.heard_at != instant


@case(SERVER_BEATS, needs={"connection-ttl"})
@over(examples=60, where=places, cy=st.sampled_from([1, 499, 500, 501, 600, 1000]))
def test_the_server_beats_within_what_it_promised(target: Bench, where: Where, cy: int) -> None:
    """CONNECTED promises a heartbeat every sx ms to a client that asked for one every cy ms. Line
    ends arrive at least every max(sx, cy) ms, even while the client sends frames."""
    peer = target.stomp("1.2", acceptor=where.acceptor, heart_beat=f"60000,{cy}")
    assert peer.connected is not None
    sx = int((peer.connected.get("heart-beat") or "0,0").split(",")[0])
    words = f"the client wants a heartbeat every {cy} ms; the server promises one every {sx} ms"
    target.require(SERVER_BEATS, sx > 0, words)
    period = ms(max(sx, cy))
    signs = [target.now()]
    for _ in range(3):
        arrivals = peer.heard_at
        if not target.wait_until(_heard_since(peer, arrivals), period // 2) and peer.ended is None:
            peer.send("BEGIN", {"transaction": f"{peer.transaction}-{target.now()}"})
        target.wait_until(_heard_since(peer, arrivals), period + seconds(2))
        if peer.ended is not None:
            return  # with these parameters the TTL expires before the server's heartbeat is due
        signs.append(target.now() if peer.heard_at in (None, arrivals) else peer.heard_at)
    target.judge_period(SERVER_BEATS, "longest gap between signs of life", signs, (0, period))


@case(PRODUCT, needs={"connection-ttl"})
def test_a_broker_with_timers_of_its_own_is_held_to_them(target: Bench) -> None:
    """Eight connections with the same TTL fall silent, spread over a check interval. The broker
    closes each inside its interval, at most one check interval after its TTL; the closes reveal the
    check interval."""
    interval = ms(int(target.parameters()["connection_ttl_check_interval_ms"] or 0))
    bounds = target.silence_interval(target.negotiated((1000, 0)).ttl_ms)
    peers = [target.stomp("1.2", heart_beat="1000,0") for _ in range(SPREAD)]
    judge_spread_closes(target, peers, StompPeer.beat, PRODUCT, bounds, interval)


@case(PRODUCT, MAY_SEND_ERROR, needs={"connection-ttl"})
def test_what_is_said_when_the_ttl_ends(target: Bench) -> None:
    """A silent connection may get an ERROR and is closed; an active one on the same acceptor stays
    open."""
    silent = target.stomp("1.2", heart_beat="1000,0")
    busy = target.stomp("1.2", heart_beat="1000,0")
    ttl = target.negotiated((1000, 0)).ttl_ms
    since = silent.spoke_at or 0
    _, latest = target.silence_interval(ttl)
    deadline = since + latest + GRACE
    while silent.ended is None and target.now() < deadline:
        target.advance(ms(400))
        busy.beat()
    target.require(
        PRODUCT,
        silent.ended is not None,
        f"a connection silent for longer than its TTL of {ttl} ms was"
        f" {'not ' if silent.ended is None else ''}closed",
        expectation=silent.closed_by_now(),
    )
    answer = silent.take(ERROR)
    words = f"{'nothing' if answer is None else answer.brief()} arrived before the close"
    target.record_finding(MAY_SEND_ERROR, answer is not None and bool(answer.get("message")), words)
    busy.settle()
