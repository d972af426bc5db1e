"""Infers a broker's TTL (with its bounds, modifier and rounding) and its own heartbeats, from
answers to CONNECT and from silences. The arithmetic is that of harness/oracles/liveness.py, with
unknown parameters. Each answer to a heart-beat header and each silence narrows their ranges; the
next silence is chosen to bisect the remaining range of the modifier. The three ways to round an
answer are separate hypotheses: one that leaves no possible value is dropped."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.inference.estimate import ANY, Estimate, Range, Refuted
from brokerproof.harness.inference.silence import Closed, Grid, grid, watch
from brokerproof.harness.model.time import Duration, ms, seconds
from brokerproof.harness.protocols.stomp.raw_peer import StompPeer

HUGE = 10**15
"""A client heartbeat interval (ms) above any sensible maximum."""
STAGGERED = 12
"""The number of connections that fall silent in turn, to find the times at which the broker checks
its connections."""

ROUNDINGS: Mapping[str, Callable[[int], Range]] = {
    "down": lambda answer: Range.of(answer, answer + 1),
    "to the nearest": lambda answer: Range.of(answer - Fraction(1, 2), answer + Fraction(1, 2)),
    "up": lambda answer: Range.of(answer - 1, answer),
}
"""Ways of rounding: each gives the quotients that may have become the answer's whole
milliseconds."""


@dataclass
class Facts:
    """The observations, by the client's interval in ms: ``answers``, and ``silences`` as ranges of
    the TTL in ms."""

    answers: dict[int, int] = field(default_factory=dict)
    silences: dict[int, Range] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PossibleValues:
    """The values that are still possible under one way of rounding. TTLs are in ms."""

    modifier: Range = ANY
    default: Range = ANY
    low: Range = ANY
    high: Range = ANY


def narrowed(facts: Facts, rounding: str) -> PossibleValues:
    """Return the values that ``facts`` leave possible. Raises :class:`Refuted` if none are."""
    back, left, answers = ROUNDINGS[rounding], PossibleValues(), facts.answers
    floor, ceiling = answers.get(1, 1), answers.get(HUGE, HUGE)
    for _ in range(60):
        modifier, default, low, high = left.modifier, left.default, left.low, left.high
        if answers.get(0):  # 0 requests no heartbeats, whatever the TTL
            default = default.meet(back(answers[0]).times(modifier))
            modifier = modifier.meet(default.over(back(answers[0])))
        if 0 in facts.silences:
            default = default.meet(facts.silences[0])
        if floor > 1:
            low = low.meet(back(floor).times(modifier))
            modifier = modifier.meet(low.over(back(floor)))
            if 1 in facts.silences:
                low = low.meet(facts.silences[1])
        elif floor == 1:  # the product of 1 sufficed, or the bound gave the same answer
            low = low.meet(Range(None, None if modifier.high is None else 2 * modifier.high))
        if ceiling < HUGE:
            high = high.meet(back(ceiling).times(modifier))
            modifier = modifier.meet(high.over(back(ceiling)))
            if HUGE in facts.silences:
                high = high.meet(facts.silences[HUGE])
        elif modifier.low is not None:
            high = high.meet(Range(HUGE * modifier.low, None))
        for beat, ttl in facts.silences.items():
            if beat not in (0, 1, HUGE) and answers.get(beat) == beat:
                # The product is truncated to whole milliseconds.
                product = Range(ttl.low, None if ttl.high is None else ttl.high + 1)
                modifier = modifier.meet(product.over(Range.of(beat, beat)))
        now = PossibleValues(modifier, default, low, high)
        if now == left:
            break
        left = now
    return left


class LivenessProbes:
    """The probes of heartbeats and TTLs. ``patience`` is the longest silence to wait for."""

    def __init__(self, bench: Bench, acceptor: str | None, patience: Duration) -> None:
        self.bench, self.acceptor, self.patience = bench, acceptor, patience
        self.slip = 0 if bench.virtual else ms(60)
        self.facts = Facts()
        self.grid: Grid | None = None
        self.probes = 0

    def ask(self, client: int, server: int = 0) -> tuple[StompPeer, tuple[int, int] | None]:
        """Open a connection that offers a heartbeat every ``client`` ms and requests one every
        ``server`` ms; return it with the answer."""
        self.probes += 1
        peer = self.bench.stomp("1.2", acceptor=self.acceptor, heart_beat=f"{client},{server}")
        header = None if peer.connected is None else peer.connected.get("heart-beat")
        try:
            sends, wants = (int(part) for part in (header or "").split(","))
        except ValueError:
            return peer, None
        return peer, (sends, wants)

    def answers(self) -> None:
        """Get the answers to the extremes: no heartbeats, the most frequent ones, and the
        rarest."""
        for client in (0, 1, HUGE):
            peer, answer = self.ask(client)
            peer.close_socket()
            if answer is not None:
                self.facts.answers[client] = answer[1]

    def silences(self, clients: list[int]) -> None:
        """Let one connection with each of these intervals fall silent, all concurrently."""
        peers = []
        for client in clients:
            peer, answer = self.ask(client)
            peers.append(peer)
            if answer is not None:
                self.facts.answers[client] = answer[1]
        for client, closed in zip(clients, watch(self.bench, peers, self.patience), strict=True):
            self._note(client, closed)

    def _note(self, client: int, closed: Closed) -> None:
        if self.grid is None:
            return
        if closed.at is None:
            # The connection was still open two checks before our patience ended.
            waited = self.bench.now() - closed.since - 2 * (self.grid.check.high or 0) - self.slip
            ttl = Range.of(max(Fraction(0), Fraction(waited) / ms(1)), None)
        else:
            ttl = self.grid.ttl_ms(closed)
        self.facts.silences[client] = ttl.meet(self.facts.silences.get(client, ANY))

    def find_grid(self) -> None:
        """Let connections with the shortest TTL fall silent one after another."""
        stagger = ms(137) if self.bench.virtual else ms(350)
        peers = []
        for number in range(STAGGERED):
            peer, _ = self.ask(1)
            peers.append(peer)
            self.bench.advance(stagger + number * ms(1) // 3)  # avoid a grid of whole milliseconds
        closed = watch(self.bench, peers, self.patience)
        self.grid = grid(closed, stagger + self.slip, self.slip)
        if self.grid is not None:
            for probe in closed:
                if probe.at is not None:
                    self._note(1, probe)

    def possible(self) -> dict[str, PossibleValues]:
        """Return the possible values under each way of rounding that is not yet refuted."""
        left = {}
        for rounding in ROUNDINGS:
            try:
                left[rounding] = narrowed(self.facts, rounding)
            except Refuted:
                continue
        return left

    def next_beats(self, count: int) -> list[int]:
        """Return at most ``count`` client intervals whose silences would split the modifier's
        remaining range; none if no interval would. An interval splits the range if the TTLs at the
        two ends of the range expire at different checks. The longest such interval that patience,
        the maximum and the grid allow is the most precise."""
        modifier = hull([estimate.modifier for estimate in self.possible().values()])
        if self.grid is None or modifier.low is None or modifier.high is None or not modifier.high:
            return []
        check = (self.grid.check.high or Fraction(ms(1))) / ms(1)
        longest = Fraction(self.patience, ms(1)) - 2 * check
        ceiling = self.facts.answers.get(HUGE, HUGE)
        lowest, highest = (
            self.facts.answers.get(1, 1) + 2,
            min(ceiling - 2, int(longest / modifier.high)),
        )
        width = modifier.high - modifier.low
        chosen = []
        for number in range(1, count + 1):
            # The boundary between two checks, for the middle of the remaining range and its
            # neighbours.
            at = modifier.low + width * number / (count + 1)
            if not at:
                continue
            span = check / width if width else Fraction(highest)
            looks = int(min(Fraction(highest), max(Fraction(lowest), span)) * at / check)
            beat = int(looks * check / at)
            if lowest <= beat <= highest and beat not in self.facts.silences and beat * width > 1:
                chosen.append(beat)
        return sorted(set(chosen))


def hull(ranges: list[Range]) -> Range:
    if not ranges:
        return Range()
    lows, highs = [interval.low for interval in ranges], [interval.high for interval in ranges]
    return Range(
        None if None in lows else min(low for low in lows if low is not None),
        None if None in highs else max(high for high in highs if high is not None),
    )


def infer_liveness(
    bench: Bench, acceptor: str | None, patience: Duration, rounds: int
) -> list[Estimate]:
    """Find the TTL parameters of ``acceptor`` in at most ``rounds`` steps, with silences of at most
    ``patience``."""
    probes = LivenessProbes(bench, acceptor, patience)
    probes.answers()
    if 0 not in probes.facts.answers:
        return [
            Estimate("heart-beat", None, "", "CONNECTED has no heart-beat header", "not answered")
        ]
    probes.find_grid()
    first = [0] if probes.grid is not None else []
    if probes.grid is not None and probes.facts.answers.get(HUGE, HUGE) < HUGE:
        first.append(HUGE)
    middle = max(probes.facts.answers.get(1, 1) + 2, 1000 if bench.virtual else 900)
    probes.silences(
        [*first, *([middle] if middle < probes.facts.answers.get(HUGE, HUGE) - 1 else [])]
    )
    for _ in range(rounds):
        beats = probes.next_beats(1 if bench.virtual else 8)
        if not beats:
            break
        probes.silences(beats)
    return _estimates(probes) + _server_beats(probes)


def _estimates(probes: LivenessProbes) -> list[Estimate]:
    possible, facts = probes.possible(), probes.facts
    probed = f"{probes.probes} connections"
    if not possible:
        sources = ", ".join(
            f"{beat} ms was answered {answer}" for beat, answer in sorted(facts.answers.items())
        )
        words = f"no combination of modifier, bounds and rounding explains what was seen: {sources}"
        return [Estimate("connection-ttl", None, "", words, "not the arithmetic of Artemis")]
    lefts = list(possible.values())
    # Far above the longest silence tested, only the answers count.
    by = "silences and answers" if facts.silences else "answers"
    check = (
        None
        if probes.grid is None
        else Range.of(*((end or 0) / ms(1) for end in _ends(probes.grid.check)))
    )
    return [
        Estimate(
            "connection_ttl_check_interval_ms", check, "ms", f"instants of {STAGGERED} closes"
        ),
        Estimate(
            "heart_beat_to_connection_ttl_modifier",
            hull([left.modifier for left in lefts]),
            "",
            f"{by} of {probed}",
        ),
        Estimate(
            "connection_ttl_ms",
            hull([left.default for left in lefts]),
            "ms",
            f"{by}, without client beats",
        ),
        Estimate(
            "connection_ttl_min_ms",
            hull([left.low for left in lefts]),
            "ms",
            f"{by} to a beat of 1 ms",
        ),
        Estimate(
            "connection_ttl_max_ms",
            hull([left.high for left in lefts]),
            "ms",
            f"{by} to a beat of {HUGE} ms",
        ),
        Estimate(
            "rounding of answers",
            None,
            "",
            "the ways to round that explain every answer",
            " or ".join(possible)
            if len(possible) < len(ROUNDINGS)
            else "down, up or to the nearest",
        ),
    ]


def _ends(interval: Range) -> tuple[Fraction | None, Fraction | None]:
    return interval.low, interval.high


def _server_beats(probes: LivenessProbes) -> list[Estimate]:
    """Return the shortest interval that the server promises, and the actual interval as a fraction
    of that."""
    peer, answer = probes.ask(60_000, 1)
    peer.close_socket()
    if answer is None or not answer[0]:
        return [Estimate("server_beat_floor_ms", None, "ms", "the server promises no beats")]
    estimates = [
        Estimate(
            "server_beat_floor_ms",
            Range.of(answer[0], answer[0]),
            "ms",
            "answer to a wish for 1 ms",
        )
    ]
    bench, wish = probes.bench, max(answer[0], 1000)
    peer, answer = probes.ask(60_000, wish)
    if answer is None or not answer[0]:
        return estimates
    beats: list[int] = []
    until = bench.now() + ms(answer[0]) * 4 + seconds(1)
    while len(beats) < 4 and bench.now() < until and peer.ended is None:
        before = peer.heard_at
        if bench.wait_until(lambda before=before: peer.heard_at != before, until - bench.now()):  # type: ignore[misc]
            beats.append(peer.heard_at or 0)
    peer.close_socket()
    if len(beats) > 1:
        gaps = [later - earlier for earlier, later in pairwise(beats)]
        share = Range.of(
            Fraction(max(0, min(gaps) - probes.slip), ms(answer[0])),
            Fraction(max(gaps) + probes.slip, ms(answer[0])),
        )
        words = f"{len(gaps)} gaps between beats, against the {answer[0]} ms that were promised"
        estimates.append(Estimate("server beats per promise", share, "", words))
    return estimates
