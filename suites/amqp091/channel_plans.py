"""Plans for the clients of the channel model: their steps and how they are drawn."""

from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.suites.api import Clock, Target
from brokerproof.suites.steps.strategies import some_kinds

PUBLISHER, PLAIN, TRANSACTED = 1, 2, 3
"""Channels."""


@dataclass(frozen=True)
class Publish:
    queue: int
    count: int


@dataclass(frozen=True)
class Consume:
    """Begin a consumer with its own prefetch (0 means none)."""

    channel: int
    queue: int
    prefetch: int
    no_ack: bool


@dataclass(frozen=True)
class Cancel:
    """End a consumer. Its deliveries remain unsettled."""

    which: int


@dataclass(frozen=True)
class Limit:
    """Set a channel's limit for all its consumers together (0 means none)."""

    channel: int
    limit: int


@dataclass(frozen=True)
class Settle:
    """Settle a delivery and, with ``multiple``, every older delivery of its channel."""

    channel: int
    which: int
    verb: str
    multiple: bool


@dataclass(frozen=True)
class Recover:
    channel: int


@dataclass(frozen=True)
class Get:
    channel: int
    queue: int


@dataclass(frozen=True)
class End:
    """End the transaction and begin the next one."""

    commit: bool


@dataclass(frozen=True)
class Close:
    """Close a channel and open it again."""

    channel: int


@dataclass(frozen=True)
class Stall:
    """Stop reading from the connection. Meanwhile other clients publish, and this one settles
    deliveries and closes the channel ``closes``."""

    steps: tuple[Publish | Settle, ...]
    closes: int | None = None


Step = Publish | Consume | Cancel | Limit | Settle | Recover | Get | End | Close | Stall

CHANNELS, QUEUES = st.sampled_from([PLAIN, TRANSACTED]), st.integers(0, 1)

VERBS, WHICH = st.sampled_from(["ack", "requeue", "drop"]), st.integers(0, 9)

SETTLE = st.builds(Settle, CHANNELS, WHICH, VERBS, st.booleans())

PUBLISH = st.builds(Publish, QUEUES, st.integers(1, 6))

PREFETCH, NO_ACK = st.integers(0, 4), st.sampled_from([False, False, False, True])

CONSUME = st.builds(Consume, CHANNELS, QUEUES, PREFETCH, NO_ACK)

TRANSACT = st.one_of(
    st.builds(Consume, st.just(TRANSACTED), QUEUES, PREFETCH, st.just(False)),
    st.builds(Settle, st.just(TRANSACTED), WHICH, VERBS, st.booleans()),
    st.builds(End, st.booleans()),
)

STALL = st.builds(
    Stall,
    st.lists(st.one_of(PUBLISH, SETTLE), min_size=1, max_size=5).map(tuple),
    st.one_of(st.none(), CHANNELS),
)


def steps(target: Target) -> st.SearchStrategy[list[Step]]:
    """Draw a plan. Only virtual time shows what is sent to a peer that does not read."""
    others = [
        st.builds(Cancel, st.integers(0, 5)),
        st.builds(Limit, CHANNELS, st.integers(0, 5)),
        st.builds(Recover, CHANNELS),
        st.builds(Get, CHANNELS, QUEUES),
        TRANSACT,
        st.builds(Close, CHANNELS),
        *([STALL] if target.clock is Clock.VIRTUAL else []),
    ]
    return some_kinds([PUBLISH, CONSUME, SETTLE, SETTLE], others, sizes=(8, 24))
