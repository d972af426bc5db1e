"""Loss, duplication, phantoms and marks: are the messages that came, as a set, those that were
sent, each once?

The messages of one producer on one queue are counted from 0 without gaps, so which of them were
sent, and which came, are sets of bits. They are kept in *blocks* of :data:`BLOCK` numbers. Sets
need no order, so those of parts that were recorded anywhere are put together, and what is odd in
the end is known message by message without reading anything again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from brokerproof.harness.protocols.amqp091.fact_reader import EXCHANGE
from brokerproof.harness.protocols.stomp.fact_reader import anycast
from brokerproof.reports.judging.columns import Columns, Messages, Names
from brokerproof.reports.judging.dense_ids import Bools, Codes, Ints, Pairs, starts

BLOCK = 1024
"""Numbers in a block: few enough that what travels is small, and enough that there are few
blocks."""
_BITS = BLOCK.bit_length() - 1
_OFFSET = 1 << 40
"""Added to the number of a block, so that the block of messages without a number (-1) has one that
is not negative."""
FOR_ALL = ("/topic/", EXCHANGE)
"""How names begin of what any number of subscriptions may get a copy of."""
LOOSE = -1
"""The block of messages without a stamp: only a second look tells them apart."""


class Book(NamedTuple):
    """One block: the numbers that were sent, sent again, came, and came again; and ``odd``: those
    whose headers or marks only a second look can judge. Each is a set of bits. ``alike``: every
    copy of a message is for the same consumers (a queue)."""

    sent: int = 0
    resent: int = 0
    got: int = 0
    regot: int = 0
    odd: int = 0
    alike: bool = False

    def plus(self, other: Book) -> Book:
        """Both together."""
        return Book(
            self.sent | other.sent,
            self.resent | other.resent | (self.sent & other.sent),
            self.got | other.got,
            self.regot | other.regot | (self.got & other.got),
            self.odd | other.odd,
            self.alike or other.alike,
        )

    @property
    def missing(self) -> int:
        """What was sent and never came; on a topic nothing, since nobody may have listened."""
        return self.sent & ~self.got if self.alike else 0

    @property
    def wrong(self) -> int:
        """What else needs a second look: nobody sent it, it was sent or came more than once, or is
        odd."""
        again = (
            self.regot if self.alike else 0
        )  # to several subscriptions; twice to one of them is a matter of order
        return (self.got & ~self.sent) | self.resent | again | self.odd

    @property
    def came(self) -> int:
        """The greatest that surely came; -1 without any. Relative to the block."""
        return (self.got & self.sent & ~self.resent).bit_length() - 1

    @property
    def balanced(self) -> bool:
        """Whether every message came once, unmarked; then nothing can be wrong with any of them but
        its place."""
        return not (self.missing or self.wrong)


def numbers_of(block: int, bits: int) -> Iterator[int]:
    """The numbers that a set of a block's bits stands for."""
    while bits:
        low = bits & -bits
        yield block * BLOCK + low.bit_length() - 1
        bits ^= low


class Books:
    """All books of a stretch."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._for_one: set[int] = set()
        """Queues of which a frame says that each message is for one consumer."""
        self._queues = Pairs()
        self._groups = Pairs()
        """Of (scope and queue) and producer; producer 0 is for messages without a stamp."""
        self._blocks: Codes[int] = Codes()
        """Of group and block, packed."""
        self._noted: dict[str, list[Ints]] = defaultdict(list)
        """Each message as block code and bit, packed; sorted out when the stretch ends."""

    def note(self, batch: Columns) -> None:
        """Enters a batch."""
        self._add(batch, batch.sent, "sent", batch.strange)
        self._add(batch, batch.got, "got", batch.marked)
        self._for_one.update(np.unique(batch.sent.queue[batch.for_one]).tolist())
        for _, command, headers in batch.rare:
            if command == "SUBSCRIBE" and anycast(headers):
                self._for_one.add(self._names.queues.one(headers.get("destination", "")))

    def _add(self, batch: Columns, messages: Messages, side: str, odd: Bools) -> None:
        if not len(messages.rows):
            return
        scope = batch.scope[messages.rows]
        groups = self._groups.of(self._queues.of(scope, messages.queue), messages.producer + 1)
        number = messages.number
        blocks = self._blocks.of(pa.array((groups << 41) | ((number >> _BITS) + _OFFSET)))
        packed = (blocks << _BITS) | (number & (BLOCK - 1))
        self._noted[side].append(packed)
        if odd.any():
            self._noted["odd"].append(packed[odd])

    def summaries(self) -> Iterator[tuple[tuple[int, int, int, int], Book]]:
        """Each book with its scope, queue, producer (-1: without a stamp) and block."""
        sets = {side: _sets(noted) for side, noted in self._noted.items()}
        none: dict[int, tuple[int, int]] = {}
        sent, got, odd = (sets.get(side, none) for side in ("sent", "got", "odd"))
        for code, packed in enumerate(self._blocks.values):
            of_queue, producer = self._groups.parts(packed >> 41)
            scope, queue = self._queues.parts(of_queue)
            block = (packed & ((1 << 41) - 1)) - _OFFSET
            alike = queue in self._for_one or not self._names.queues.values[queue].startswith(
                FOR_ALL
            )
            bits = (*sent.get(code, (0, 0)), *got.get(code, (0, 0)), odd.get(code, (0, 0))[0])
            book = Book(*bits, alike)
            yield (
                (scope, queue, producer - 1, block),
                book if block != LOOSE else book._replace(odd=1),
            )


def _sets(noted: list[Ints]) -> dict[int, tuple[int, int]]:
    """By block: the set of bits that were noted, and of those noted more than once."""
    every = np.sort(np.concatenate(noted))
    first = starts(every)
    again = every[~first]
    twice = dict(_packed(again[starts(again)])) if len(again) else {}
    return {block: (bits, twice.get(block, 0)) for block, bits in _packed(every[first])}


def _packed(ascending: Ints) -> Iterator[tuple[int, int]]:
    """Blocks and their sets of bits, of distinct ascending numbers."""
    blocks = ascending >> _BITS
    begin = np.flatnonzero(starts(blocks))
    for low, high in zip(begin.tolist(), [*begin[1:].tolist(), len(ascending)], strict=True):
        bits = np.zeros(BLOCK, np.uint8)
        bits[ascending[low:high] & (BLOCK - 1)] = 1
        yield (
            int(blocks[low]),
            int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little"),
        )


def merged(parts: Iterable[Book]) -> Book:
    """One book of the books of all parts, in any order."""
    whole = Book()
    for part in parts:
        whole = whole.plus(part)
    return whole
