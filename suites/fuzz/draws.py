"""The peers of the protocol fuzzer, and how they draw numbers, names and bodies.

Most fields are small numbers and names that other frames use, so that frames interact; a few are
boundary numbers or texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from brokerproof.suites.fuzz.operators import INTEGERS, TEXTS

NAMES = ("q", "t", "/queue/q", "queue://q", "topic://t", "jms.queue.q", "amq.topic", "DLQ", "x")
"""Only a few, so frames use the same addresses. ``queue://q`` is ActiveMQ's name over AMQP."""
SELECTORS = ("a = 1", "a", "NOT (a LIKE '%x')", "1=1", "(" * 40 + "a" + ")" * 40, "a IN ('b')")


@dataclass
class Memory:
    """A peer's memory: the numbers that it may use next, and the broker's latest data."""

    received: bytes = b""
    next_id: int = 0
    next_handle: int = 0
    senders: list[int] = field(default_factory=list)
    receivers: list[int] = field(default_factory=list)
    coordinators: list[int] = field(default_factory=list)
    under_way: int | None = None
    """The handle of a delivery whose last transfer has not been sent."""
    channels: list[int] = field(default_factory=lambda: [1])
    acknowledged: int = 0


@dataclass(frozen=True)
class Speaker:
    """One protocol: its acceptor in the brokers of :mod:`brokerproof.suites.fuzz.scene`, the chunks
    of an opening, and a maker of frames."""

    name: str
    acceptor: str
    openings: Callable[[Random], Sequence[bytes]]
    frame: Callable[[Random], bytes]
    """Makes any frame with a valid structure."""
    sensible: Callable[[Random, Memory], bytes] | None = None
    """Makes a frame that fits the previous ones, for protocols where this needs a memory."""


def number(random: Random, bits: int, *, signed: bool = False) -> int:
    """Return a small number, or a boundary number of ``bits`` bits."""
    if random.random() < 0.85:
        return random.randrange(4) if random.random() < 0.8 else random.randrange(127)
    value = random.choice(INTEGERS) % (1 << bits)
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def name(random: Random) -> str:
    """Return a name that other frames use, or a boundary text."""
    return random.choice(NAMES) if random.random() < 0.95 else random.choice(TEXTS)


def body(random: Random) -> bytes:
    """Return a body, usually a small one, sometimes one that counts as large."""
    size = random.choice((0, 1, 1, 5, 40, 300, 3000)) if random.random() < 0.98 else 20_000
    return b"x" * size
