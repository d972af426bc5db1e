"""Combined limits of an address: bytes, messages, all addresses together, and reject threshold.

Each limit is absent, 0, or positive (ARTEMIS-PAGING-8, ARTEMIS-PAGING-13). -1 means no limit; an
address whose limit is 0 is full from the start. Of several limits the first to be reached applies;
the threshold applies only under BLOCK.
"""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import QUIET
from brokerproof.suites.api import RECONFIGURABLE, Bench, Target, Where, case, listed, over, shown
from brokerproof.suites.steps import small_addresses

POLICIES = "ARTEMIS-PAGING-8"
FIRST_LIMIT = "ARTEMIS-PAGING-13"
REJECTED = "ARTEMIS-FLOW-amqp-4"
NO_CREDIT = "ARTEMIS-FLOW-amqp-2"

BODY = 10_000
"""Bytes of a body. If a broker charges at most 2,400 bytes more per message, the number of messages
that reaches each limit of :data:`SIZES` is the same."""
SIZES = {-1: None, 0: 0, 1: 1, 15_000: 2, 25_000: 3, 1_000_000: 100}
"""Limits in bytes, and the number of messages that reaches them."""
MOST = 6
"""The number of messages sent."""
NONE = -1
BY_BYTES = "bytes are the first limit"
BY_MESSAGES = "messages are the first limit, and there is one of bytes"
BY_ALL = "all addresses together are full before the address is"
ZERO = "a limit is 0"
BELOW = "the threshold is below the limit"
OTHERWISE = "there is a threshold, and the policy is another"
SITUATIONS = (BY_BYTES, BY_MESSAGES, BY_ALL, ZERO, BELOW, OTHERWISE)


def limits(
    policy: str, size: int = NONE, messages: int = NONE, threshold: int = NONE, all: int = NONE
) -> dict[str, Any]:
    """Return settings; ``all`` limits the messages of all addresses together."""
    return {
        "address": {
            "address_full_policy": policy,
            "max_size_bytes": size,
            "max_size_messages": messages,
            "max_size_bytes_reject_threshold": threshold,
        },
        "broker": {"global_max_messages": all},
    }


CORNERS = (
    limits("FAIL", size=25_000),
    limits("FAIL", size=1_000_000, messages=2),
    limits("DROP", size=1_000_000, messages=2),
    limits("FAIL", size=1_000_000, all=2),
    limits("DROP", messages=100, all=2),
    limits("FAIL", size=0),
    limits("DROP", messages=0),
    limits("FAIL", size=1_000_000, all=0),
    limits("DROP", size=0, messages=3),
    limits("BLOCK", size=1_000_000, threshold=15_000),
    limits("BLOCK", size=1_000_000, threshold=0),
    limits("BLOCK", size=0),
    limits("FAIL", size=1_000_000, threshold=0),
    limits("DROP", size=1_000_000, threshold=15_000),
)


def settings(target: Target) -> st.SearchStrategy[Where]:
    sizes = st.sampled_from(list(SIZES))
    counts = st.sampled_from([NONE, 0, 1, 2, 5, 100])
    drawn = st.builds(
        limits,
        st.sampled_from(["FAIL", "DROP", "BLOCK"]),
        sizes,
        counts,
        st.sampled_from([NONE, NONE, 0, 15_000, 1_000_000]),
        counts,
    )
    return drawn.map(lambda limits: Where(target.identity.default_amqp_acceptor, limits))


def _reached(limit: int | None, count: int) -> bool:
    return limit is not None and 0 <= limit <= count


class Model:
    """An address with these settings, the only one of its broker. Its limits are in messages."""

    def __init__(self, target: Bench, overrides: Mapping[str, Mapping[str, Any]]) -> None:
        self._target = target
        address = overrides["address"]
        self.policy = address["address_full_policy"]
        self.size = SIZES[address["max_size_bytes"]]
        self.messages = address["max_size_messages"]
        self.threshold = SIZES[address["max_size_bytes_reject_threshold"]]
        self.all = overrides["broker"]["global_max_messages"]
        if 0 in (self.size, self.messages, self.all):
            target.reached(ZERO)
        if self.threshold is not None and self.policy != "BLOCK":
            target.reached(OTHERWISE)

    def is_full(self, count: int) -> bool:
        by_size, by_count = _reached(self.size, count), _reached(self.messages, count)
        by_all = _reached(self.all, count)
        if by_all and not by_size and not by_count:
            self._target.reached(BY_ALL)
        if by_size and not by_count and not by_all:
            self._target.reached(BY_BYTES)
        if by_count and self.size is not None and not by_size:
            self._target.reached(BY_MESSAGES)
        return by_size or by_count or by_all

    def rejects(self, count: int) -> bool:
        rejects = self.policy == "BLOCK" and _reached(self.threshold, count)
        if rejects and self.size is not None and self.size > count:
            self._target.reached(BELOW)
        return rejects


@case(
    POLICIES,
    FIRST_LIMIT,
    REJECTED,
    NO_CREDIT,
    needs={"amqp", "amqp-credit", "address-full", RECONFIGURABLE},
)
@over(
    examples=16,
    always=lambda target: [
        {"where": Where(target.identity.default_amqp_acceptor, corner)} for corner in CORNERS
    ],
    situations=SITUATIONS,
    where=settings,
)
def test_the_first_limit_that_is_reached_counts(target: Bench, where: Where) -> None:
    """An address has limits in any combination, and six messages are sent to it. A full address
    refuses each under FAIL, drops it under DROP, and grants no credit under BLOCK; only under BLOCK
    does it reject messages from its threshold on. One scenario: the limits belong to one
    address."""
    model = Model(target, where.overrides or {})
    place = target.node()
    peer, link = small_addresses.producer(target, place)
    if model.policy == "BLOCK":
        target.wait_until(lambda: link.credit > 0, QUIET)
        full = model.is_full(0)
        detail = f"with {shown(where.overrides)}, empty: {link.credit} credits; expected"
        words = f"{detail} {'none' if full else 'some'}"
        target.record_finding(NO_CREDIT, (link.credit == 0) is full, words)
        if full:
            return
    judged = (REJECTED,) if model.policy == "BLOCK" else (POLICIES, FIRST_LIMIT)
    kept: list[int] = []
    for number in range(MOST):
        full, rejects = model.is_full(len(kept)), model.rejects(len(kept))
        refused = rejects or (full and model.policy == "FAIL")
        state = small_addresses.send(target, peer, link, small_addresses.body(number, BODY))
        expected = "rejected" if refused else "accepted"
        detail = f"with {shown(where.overrides)} and {len(kept)} messages, one more was {state}"
        target.require(judged, state == expected, f"{detail}; expected {expected}")
        if not refused and not (full and model.policy == "DROP"):
            kept.append(number)
    received = small_addresses.drain_queue(target, place, len(kept))
    detail = (
        f"{listed(received)} of {MOST} messages arrived; expected {listed(kept)}; with"
        f" {shown(where.overrides)}"
    )
    target.record_finding(judged, received == kept, detail)
