"""Facts about messages that the frames of a connection establish: a message was sent, delivered or
settled, a consumer subscribed, and so on. Every protocol's fact reader
(``harness/protocols/PROTOCOL/fact_reader.py``) turns rows of the trace into such facts, and
:mod:`brokerproof.harness.oracles.recorded_anomalies` judges them. A fact claims no more than the
recording shows: an ACK that requested no receipt is *asked*, not settled."""

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from brokerproof.harness.model.time import NS_PER_S, Duration
from brokerproof.harness.model.wire_numbers import whole_number
from brokerproof.harness.trace import stamp as stamps

When: TypeAlias = tuple[int, int]
"""An instant (ns) and the position in the recording, which orders events of the same instant."""

FOREKNOWN: Duration = NS_PER_S
"""A broker may redeliver a closed connection's messages before we see the close, so the close is
dated earlier by this much."""


class End(enum.Enum):
    """How a delivery ended, as far as the recording shows."""

    HELD = "held"
    """The delivery has not ended yet."""
    ASKED = "asked"
    """Acknowledged without a request for confirmation. Deliveries in auto mode begin in this
    state."""
    SETTLED = "settled"
    """Acknowledged, and the broker confirmed it."""
    TENTATIVE = "tentative"
    """Acknowledged or refused in a transaction, which may be aborted."""
    REFUSED = "refused"
    RETURNED = "returned"
    """The consumer unsubscribed while it held the delivery."""
    LOST = "lost"
    """The consumer's connection closed without DISCONNECT while it held the delivery."""


class Key(NamedTuple):
    """Identity of a message: its stamp, or a digest of its body (then ``producer`` is -1)."""

    producer: int
    number: int

    @property
    def stamped(self) -> bool:
        return self.producer >= 0

    def __str__(self) -> str:
        if self.stamped:
            return f"message {self.number} of producer {self.producer}"
        return f"body #{self.number:016x}"


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that a producer sent.

    ``anycast`` is None if neither the headers nor the name show whether it is. ``strange``: the
    broker may reorder, delay or drop the message. ``channel`` is that of a multiplexed connection.
    ``routed``: some queue certainly received the message."""

    key: Key
    queue: str
    conn: int
    when: When
    confirmed: bool
    withdrawn: bool
    anycast: bool | None
    strange: bool
    channel: int = 0
    routed: bool = True


@dataclass(frozen=True, slots=True)
class Delivered:
    """A delivery and its outcome (``end`` at ``ended``). ``marked`` is true if the broker marked it
    as a redelivery."""

    key: Key
    queue: str
    conn: int
    subscription: str
    when: When
    marked: bool
    end: End
    ended: When | None
    anycast: bool | None


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A new consumer. ``selective`` is true if it may leave messages on the queue (a selector, a
    limit)."""

    queue: str
    conn: int
    subscription: str
    when: When
    selective: bool


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """The end of a consumer. ``noticed`` is true if the broker confirmed the end, so that no
    delivery is in flight."""

    queue: str
    conn: int
    subscription: str
    when: When
    noticed: bool


@dataclass(frozen=True, slots=True)
class Overrun:
    """A delivery of ``size`` bytes that began while the window was closed.

    The consumer held ``count`` deliveries of ``held_bytes`` bytes in total."""

    queue: str
    conn: int
    subscription: str
    when: When
    window: int
    unit: str
    count: int
    held_bytes: int
    size: int

    def __str__(self) -> str:
        return (
            f"a MESSAGE of {self.size} bytes arrived under a window of {self.window} {self.unit}"
            f" while {self.count} deliveries of {self.held_bytes} bytes were held"
        )


@dataclass(frozen=True, slots=True)
class UnreadableConnection:
    """A connection with bytes that could not be read or are missing from the recording."""

    conn: int


Fact: TypeAlias = Sent | Delivered | Subscribed | Unsubscribed | Overrun | UnreadableConnection


class Row(NamedTuple):
    """One event of a connection as fact readers need it.

    ``headers`` has the first value of each header, ``key`` is the key of the body."""

    when: When
    kind: str
    command: str
    headers: Mapping[str, str]
    key: Key | None
    size: int
    protocol: str = "STOMP"

    @property
    def hides_bytes(self) -> bool:
        """True if the row stands for bytes that cannot be interpreted or are missing."""
        return self.kind == "OctetsSent" or hides(self.kind, self.command)


UNSEEN_KINDS = ("OctetsReceivedUnseen", "OctetsSentUnseen")
UNTIL_NOW, FAR = "ENDS", "FAR"
"""Reasons for unseen bytes that hide no bytes: the recording ended before the connection, or the
capture was perhaps not taken near the broker, so that the network may have caused a silence."""
HIDING_NOTHING = frozenset({UNTIL_NOW, FAR})


def hides(kind: str, command: str) -> bool:
    """True if an event of that ``kind`` marks bytes that are missing from the recording."""
    return kind in UNSEEN_KINDS and command not in HIDING_NOTHING


def key_of(body: bytes, body_size: int) -> Key:
    """Return the key of a recorded body, which may be truncated."""
    stamp = stamps.read(body)
    if stamp is not None:
        return Key(*stamp)
    digest = hashlib.blake2b(body + b"%d" % body_size, digest_size=8).digest()
    return Key(-1, int.from_bytes(digest, "big") >> 1)


def is_true(headers: Mapping[str, str], name: str) -> bool:
    return headers.get(name) == "true"


def number(headers: Mapping[str, str], name: str) -> int:
    """Return a numeric field; 0 if it is missing or not a number."""
    return whole_number(headers.get(name, "")) or 0
