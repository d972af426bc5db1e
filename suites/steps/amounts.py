"""Amounts as a parameter: how many messages, consumers, links, operations and so on a case uses.

A case draws a ``position`` and asks :func:`at` for the amount there. Position 0 is the largest
amount that the run's effort allows, and a property always runs it. The others are 0, 1, 2, one
below, at and one above each power of two from 2^5 to 2^16, and one below, at and one above each
size by which the target's family batches, caches, prefetches or pages. They end at a quarter of the
largest, so that drawing several costs less than the largest once. A case reports the amount it used
through :meth:`~brokerproof.harness.cases.bench.Bench.used_amount`; ``brokerproof requirements
--amounts RUN`` prints the largest of each case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, over

Function = TypeVar("Function", bound=Callable[..., Any])

FAR: Mapping[str, int] = {"smoke": 1_100, "normal": 10_000, "deep": 100_000}
"""The greatest amount by effort in virtual time."""
FAR_IN_REAL_TIME: Mapping[str, int] = {"smoke": 300, "normal": 1_100, "deep": 10_000}
"""The same in real time, where other cases run concurrently and the broker shares the machine."""
POWERS = range(5, 17)
BATCHES: Mapping[str, tuple[int, ...]] = {
    # AMQP credit of a producer and where it is filled up (since 2.6, AmqpSupport), the most that
    # QueueImpl delivers in one turn (MAX_DELIVERIES_IN_LOOP) and browses ahead.
    "artemis": (30, 100, 300, 1000),
    # maxPageSize of a destination, prefetch of a durable topic, the maxAuditDepth of a cursor, the
    # prefetch of a queue.
    "activemq": (100, 200, 1000, 2048),
    # Credit between processes (credit_flow_default_credit), credit of AMQP 1.0 links, entries of a
    # segment of the queue index.
    "rabbitmq": (128, 170, 200, 400, 4096),
}
"""Sizes by family by which brokers batch, cache, prefetch or page, from their sources."""
POSITIONS = 80
"""An upper bound of the number of amounts."""
FEW, SOME, MORE = 5, 15, 18
"""Positions of an amount of about thirty, of about a hundred, and of a few hundred."""


def values(effort: str, family: str, most: int | None = None) -> tuple[int, ...]:
    """Return the amounts of a family up to the limit of ``effort`` and to ``most``, the largest
    first and the others in order."""
    far = FAR[effort] if most is None else min(FAR[effort], most)
    points = {2**power for power in POWERS} | {*BATCHES.get(family, ())}
    others = {0, 1, 2, *(point + step for point in points for step in (-1, 0, 1))}
    most_of_others = max(far // 4, min(far - 1, FAR["smoke"]))
    return (far, *sorted(amount for amount in others if amount <= most_of_others))


def at(
    target: Bench, position: int, *, least: int = 0, most: int | None = None, piped: bool = False
) -> int:
    """Return the amount at ``position``, counted around, between ``least`` and ``most``. ``piped``:
    it is written at once, which costs a broker in real time little."""
    if not target.virtual:
        far = max(FAR_IN_REAL_TIME[target.effort], FAR["smoke"] if piped else 0)
        most = far if most is None else min(most, far)
    amounts = values(target.effort, target.profile.name, most)
    return max(least, amounts[position % len(amounts)])


def over_amounts(examples: int = 20) -> Callable[[Function], Function]:
    """Make a property of a case that has a ``position`` among :func:`values`: the largest always,
    and some others. A small one is first, because it is recorded."""

    def decorate(function: Function) -> Function:
        return over(
            examples=examples,
            always=lambda target: [{"position": position} for position in (FEW, 0)],
            position=st.integers(0, POSITIONS),
        )(function)

    return decorate
