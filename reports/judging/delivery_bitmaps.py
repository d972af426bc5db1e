"""Loss, duplication, phantoms and redelivery marks: was every message that was sent delivered
exactly once?

The messages of one producer on one queue are numbered from 0 without gaps. So the messages sent and
those delivered are sets of bits, in blocks of :data:`BLOCK` numbers. Sets have no order, so the
sets of any pieces can be merged. The merged sets identify each suspicious message without rereading
events."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from brokerproof.harness.protocols.amqp091.fact_reader import EXCHANGE
from brokerproof.harness.protocols.stomp.fact_reader import anycast
from brokerproof.reports.judging.columns import Columns, Messages, Names
from brokerproof.reports.judging.dense_ids import Bools, Codes, Ints, Pairs, starts
from brokerproof.reports.judging.summary import Summary

BLOCK = 1024
"""The number of messages in a block: few, so that little data is moved, yet enough to keep the
number of blocks low."""
_BITS = BLOCK.bit_length() - 1
_OFFSET = 1 << 40
"""This is added to the number of a block, so that the block of messages without a number (-1) has a
non-negative code."""
FOR_ALL = ("/topic/", EXCHANGE)
"""The prefixes of names whose messages go to any number of subscriptions."""
LOOSE = -1
"""The block of messages without a stamp, which only a recheck can distinguish."""


@dataclass(frozen=True)
class DeliveryBitmap(Summary["DeliveryBitmap"]):
    """One block of a producer's messages on a queue: sets of numbers, as bits relative to the
    block."""

    sent: int = 0
    resent: int = 0
    """The messages that were sent more than once."""
    got: int = 0
    regot: int = 0
    """The messages that were delivered more than once."""
    odd: int = 0
    """Messages with headers or redelivery marks that only a recheck can judge."""
    one_copy: bool = False
    """True if every copy of a message is intended for the same consumers (a queue)."""

    def merge(self, later: "DeliveryBitmap") -> "DeliveryBitmap":
        """Merge both bitmaps, in any order."""
        return DeliveryBitmap(
            self.sent | later.sent,
            self.resent | later.resent | (self.sent & later.sent),
            self.got | later.got,
            self.regot | later.regot | (self.got & later.got),
            self.odd | later.odd,
            self.one_copy or later.one_copy,
        )

    @property
    def missing(self) -> int:
        """The messages that were sent but never delivered; empty on a topic, which may have had no
        subscriber."""
        return self.sent & ~self.got if self.one_copy else 0

    @property
    def repeated(self) -> int:
        """The messages delivered more than once; empty on a topic, where a second copy on one
        subscription counts as an inversion of order."""
        return self.regot if self.one_copy else 0

    @property
    def suspicious(self) -> int:
        """The messages that were delivered but never sent, that were sent or delivered more than
        once, or that are odd."""
        return (self.got & ~self.sent) | self.resent | self.repeated | self.odd

    @property
    def highest(self) -> int:
        """The highest message that certainly arrived, relative to the block; -1 for none."""
        return (self.got & self.sent & ~self.resent).bit_length() - 1

    @property
    def needs_recheck(self) -> bool:
        """True unless every message was delivered once and unmarked, so that only its order can be
        wrong."""
        return bool(self.missing or self.suspicious)

    def highest_delivered(self, block: int) -> int:
        """Return the number of :attr:`highest` in its block, or -1."""
        return -1 if block == LOOSE or self.highest < 0 else block * BLOCK + self.highest


def numbers_of(block: int, bits: int) -> Iterator[int]:
    """Yield the numbers that a set of a block's bits contains."""
    while bits:
        low = bits & -bits
        yield block * BLOCK + low.bit_length() - 1
        bits ^= low


class DeliveryBitmaps:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._one_copy: set[int] = set()
        """Queues for which a frame states that each message is for one consumer."""
        self._queues = Pairs()
        self._groups = Pairs()
        """Groups by scope and queue, and by producer; producer 0 stands for messages without a
        stamp."""
        self._blocks: Codes[int] = Codes()
        """The packed blocks of a group."""
        self._messages: dict[str, list[Ints]] = defaultdict(list)
        """Each message, as its packed block code and its bit. Sorted when the piece ends."""

    def update(self, batch: Columns) -> None:
        self._add(batch, batch.sent, "sent", batch.strange)
        self._add(batch, batch.got, "got", batch.marked)
        self._one_copy.update(np.unique(batch.sent.queue[batch.for_one]).tolist())
        for _, command, headers in batch.rare:
            if command == "SUBSCRIBE" and anycast(headers):
                self._one_copy.add(self._names.queues.one(headers.get("destination", "")))

    def _add(self, batch: Columns, messages: Messages, side: str, odd: Bools) -> None:
        if not len(messages.rows):
            return
        scope = batch.scope[messages.rows]
        groups = self._groups.of(self._queues.of(scope, messages.queue), messages.producer + 1)
        number = messages.number
        blocks = self._blocks.of(pa.array((groups << 41) | ((number >> _BITS) + _OFFSET)))
        packed = (blocks << _BITS) | (number & (BLOCK - 1))
        self._messages[side].append(packed)
        if odd.any():
            self._messages["odd"].append(packed[odd])

    def summaries(self) -> Iterator[tuple[tuple[int, int, int, int], DeliveryBitmap]]:
        """Yield each bitmap with its scope, queue, producer (-1: without a stamp) and block."""
        sets = {side: _sets(messages) for side, messages in self._messages.items()}
        none: dict[int, tuple[int, int]] = {}
        sent, got, odd = (sets.get(side, none) for side in ("sent", "got", "odd"))
        queues = self._names.queues.values
        for code, packed in enumerate(self._blocks.values):
            pair, producer = self._groups.parts(packed >> 41)
            scope, queue = self._queues.parts(pair)
            block = (packed & ((1 << 41) - 1)) - _OFFSET
            bitmap = DeliveryBitmap(
                *sent.get(code, (0, 0)),
                *got.get(code, (0, 0)),
                1 if block == LOOSE else odd.get(code, (0, 0))[0],
                one_copy=queue in self._one_copy or not queues[queue].startswith(FOR_ALL),
            )
            yield (scope, queue, producer - 1, block), bitmap


def _sets(messages: list[Ints]) -> dict[int, tuple[int, int]]:
    """Return the messages, and the repeated ones, as sets by block."""
    ascending = np.sort(np.concatenate(messages))
    first = starts(ascending)
    repeated = ascending[~first]
    twice = dict(_packed(repeated[starts(repeated)])) if len(repeated) else {}
    return {block: (bits, twice.get(block, 0)) for block, bits in _packed(ascending[first])}


def _packed(ascending: Ints) -> Iterator[tuple[int, int]]:
    """Yield the blocks and their sets of bits, from distinct ascending numbers."""
    blocks = ascending >> _BITS
    begin = np.flatnonzero(starts(blocks))
    for low, high in zip(begin.tolist(), [*begin[1:].tolist(), len(ascending)], strict=True):
        bits = np.zeros(BLOCK, np.uint8)
        bits[ascending[low:high] & (BLOCK - 1)] = 1
        packed = np.packbits(bits, bitorder="little").tobytes()
        yield int(blocks[low]), int.from_bytes(packed, "little")
