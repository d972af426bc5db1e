"""Strategies for properties: values at limits, instants at deadlines, places with parameters.

Uniform draws almost never hit an off-by-one fault, so these aim at a limit and its neighbours.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.oracles import liveness
from brokerproof.harness.targets.parameters import speaking
from brokerproof.harness.targets.target import Parameters
from brokerproof.suites.api import RECONFIGURABLE, Clock, Target, Where

LONGEST_REAL_TTL_MS = 4000
"""In real time a case waits for TTLs up to this …"""
ACCELERATED_TTLS_MS = (500, 7000)
"""… and on an accelerated clock for those that take the host between these two times (ms)."""
MINUTE_MS = 60_000


def real_ttls(target: Target) -> range:
    """Return TTLs in milliseconds for which a case can wait in real time."""
    rate = target.identity.clock_rate
    if rate == 1:
        return range(LONGEST_REAL_TTL_MS + 1)
    shortest, longest = ACCELERATED_TTLS_MS
    return range(shortest * rate, longest * rate + 1)


def waited_for(target: Target, *durations_ms: int) -> list[int]:
    """Return ``durations_ms`` times the rate of the target's clock. If that clock is accelerated, a
    minute is a further item of the list."""
    rate = target.identity.clock_rate
    durations = [duration_ms * rate for duration_ms in durations_ms]
    return durations if rate == 1 else [*durations, MINUTE_MS]


def periods(*corners_ms: int) -> Callable[[Target], st.SearchStrategy[int]]:
    """Draw heartbeat intervals in milliseconds, near lengths for which a case can wait."""
    return lambda target: near(waited_for(target, *corners_ms), low=1)


def near(points: Iterable[int], low: int = 0) -> st.SearchStrategy[int]:
    """Draw a value one below, at or one above one of ``points``, but never below ``low``."""
    candidates = {point + step for point in points for step in (-1, 0, 1)}
    return st.sampled_from(sorted(candidate for candidate in candidates if candidate >= low))


@dataclass(frozen=True)
class Silence:
    """A connection that will fall silent; ``heart_beat`` is its header (None if there is none)."""

    where: Where
    version: str
    heart_beat: tuple[int, int] | None


def silences(target: Target) -> st.SearchStrategy[Silence]:
    """Draw connections whose TTL the target must keep, aimed at corners of the TTL arithmetic."""
    real = target.clock is Clock.REAL

    @st.composite
    def draw_silence(draw: st.DrawFn) -> Silence:
        where = draw(places(target))
        parameters = target.acceptors(where.overrides)[where.acceptor]
        low, high = (
            _int(parameters["connection_ttl_min_ms"]),
            _int(parameters["connection_ttl_max_ms"]),
        )
        modifier = float(parameters["heart_beat_to_connection_ttl_modifier"] or 1)
        corners = [1, 250, 500, 1000, int(low / modifier), int(min(high, 10**9) / modifier)]
        cx = st.one_of(near(corners), st.integers(0, 60_000))
        cy = st.one_of(near([1, 500, 1000]), st.integers(0, 60_000))
        version = draw(st.sampled_from(["1.0", "1.1", "1.2"]))
        heart_beat = draw(st.one_of(st.none(), st.tuples(cx, cy)))
        if heart_beat is not None and heart_beat[1]:
            # A server that sends a heartbeat twice a second through a TTL of days would fill the
            # trace with them.
            ttl = liveness.negotiate(parameters, heart_beat, version).ttl_ms
            heart_beat = (heart_beat[0], max(heart_beat[1], min(ttl, 2**31) // 50))
        return Silence(where, version, heart_beat)

    drawn = draw_silence()
    if not real:
        return drawn
    return drawn.filter(
        lambda silence: (
            liveness.negotiate(
                target.acceptors(silence.where.overrides)[silence.where.acceptor],
                silence.heart_beat,
                silence.version,
            ).ttl_ms
            in real_ttls(target)
        )
    )


def places(target: Target) -> st.SearchStrategy[Where]:
    """Draw STOMP acceptors: with any parameters if the target can be reconfigured, else its own."""
    if RECONFIGURABLE not in target.identity.capabilities:
        return st.sampled_from(
            [Where(name) for name in sorted(speaking(target.acceptors(), "STOMP"))]
        )
    return st.builds(
        lambda acceptor, broker: Where(
            target.identity.default_acceptor, {"acceptor": acceptor, "broker": broker}
        ),
        _acceptor_parameters(),
        _broker_parameters(),
    )


def _acceptor_parameters() -> st.SearchStrategy[Parameters]:
    bounds = st.one_of(near([500, 1000, 1500, 5000, 30_000], low=1), st.integers(1, 10**7))
    return st.fixed_dictionaries(
        {
            "connection_ttl_ms": st.one_of(st.none(), near([1, 500, 1000, 2000, 60_000], low=1)),
            "connection_ttl_min_ms": st.one_of(st.just(1000), bounds),
            "connection_ttl_max_ms": st.one_of(st.just(liveness.LONG_MAX), bounds),
            "heart_beat_to_connection_ttl_modifier": st.sampled_from(
                [0.5, 1.0, 1.1, 1.5, 2.0, 2.5, 10.0, 1e15]
            ),
        }
    )


def _broker_parameters() -> st.SearchStrategy[Parameters]:
    return st.fixed_dictionaries(
        {
            "connection_ttl_override_ms": st.sampled_from([-1, -1, 1, 1999, 2000, 2001, 5000]),
            "connection_ttl_check_interval_ms": st.sampled_from([1, 500, 999, 2000, 2000, 7000]),
        }
    )


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def some_kinds(
    usual: Sequence[st.SearchStrategy[Any]],
    others: Sequence[st.SearchStrategy[Any]],
    *,
    sizes: tuple[int, int],
) -> st.SearchStrategy[list[Any]]:
    """Draw a list of steps of the ``usual`` kinds and of one to three ``others``.

    A history of few kinds exercises each more deeply (swarm testing: Groce et al., ISSTA 2012).
    """
    few = st.lists(st.sampled_from(range(len(others))), min_size=1, max_size=3, unique=True)
    return few.flatmap(
        lambda chosen: st.lists(
            st.one_of(*usual, *(others[number] for number in chosen)),
            min_size=sizes[0],
            max_size=sizes[1],
        )
    )
