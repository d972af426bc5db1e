"""Amounts as a parameter: the number of messages, consumers, links or operations in a case.

A case draws a ``position`` and asks :func:`at` for the amount there. Position 0 is the largest
amount that the run's effort allows; a property always uses it. Further amounts are 0, 1, 2, and one
below, at and one above each power of two from 2^5 to 2^16 and each size by which the target's
family batches, caches, prefetches or pages. They end at a quarter of the largest: several of them
cost less than the largest. A case reports the amount it used through
:meth:`~brokerproof.harness.cases.bench.Bench.used_amount`; ``brokerproof requirements --amounts
RUN`` prints the largest of each case.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, over

Function = TypeVar("Function", bound=Callable[..., Any])

FAR: Mapping[str, int] = {"smoke": 1_100, "normal": 10_000, "deep": 100_000}
"""The largest amount in virtual time, by effort."""
FAR_IN_REAL_TIME: Mapping[str, int] = {"smoke": 300, "normal": 1_100, "deep": 10_000}
"""The largest amount in real time: there, concurrent cases share the broker and the machine."""
POWERS = range(5, 17)
BATCHES: Mapping[str, tuple[int, ...]] = {
    # Credit of an AMQP producer and the level at which it is refilled (since 2.6, AmqpSupport);
    # messages that QueueImpl delivers in one turn (MAX_DELIVERIES_IN_LOOP) and browses ahead.
    "artemis": (30, 100, 300, 1000),
    # maxPageSize of a destination, prefetch of a durable topic, maxAuditDepth of a cursor, prefetch
    # of a queue.
    "activemq": (100, 200, 1000, 2048),
    # Credit between processes (credit_flow_default_credit), credit of AMQP 1.0 links, entries of a
    # queue index segment.
    "rabbitmq": (128, 170, 200, 400, 4096),
}
"""Sizes by which brokers batch, cache, prefetch or page, by family, from their sources."""
POSITIONS = 80
"""An upper bound on the number of amounts."""
FEW, SOME, MORE = 5, 15, 18
"""Positions of amounts of about thirty, about a hundred, and a few hundred."""


def values(effort: str, family: str, most: int | None = None) -> tuple[int, ...]:
    """Return the amounts for a family, up to the limit of ``effort`` and to ``most``: the largest
    first, and the rest in ascending order."""
    far = FAR[effort] if most is None else min(FAR[effort], most)
    points = {2**power for power in POWERS} | {*BATCHES.get(family, ())}
    others = {0, 1, 2, *(point + step for point in points for step in (-1, 0, 1))}
    most_of_others = max(far // 4, min(far - 1, FAR["smoke"]))
    return (far, *sorted(amount for amount in others if amount <= most_of_others))


def at(
    target: Bench, position: int, *, least: int = 0, most: int | None = None, piped: bool = False
) -> int:
    """Return the amount at ``position`` (modulo their number), between ``least`` and ``most``.
    ``piped``: all is sent in one write, which takes a broker little real time."""
    if not target.virtual:
        far = max(FAR_IN_REAL_TIME[target.effort], FAR["smoke"] if piped else 0)
        most = far if most is None else min(most, far)
    amounts = values(target.effort, target.profile.name, most)
    return max(least, amounts[position % len(amounts)])


def over_amounts(examples: int = 20) -> Callable[[Function], Function]:
    """Make a property of a case that has a ``position`` among :func:`values`. The largest amount
    always runs. The first example is small, because it is recorded."""

    def decorate(function: Function) -> Function:
        return over(
            examples=examples,
            always=lambda target: [{"position": position} for position in (FEW, 0)],
            position=st.integers(0, POSITIONS),
        )(function)

    return decorate
