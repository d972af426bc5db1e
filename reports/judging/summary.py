"""Summaries: the judges keep them instead of the events of a piece.

The task that reads a piece makes one summary for each group: a block of a producer's messages on a
queue, the order on a subscription, a connection, and so on. The summaries of a group are merged in
the order of their pieces. A merged summary is either clean or requires that the group's events be
read again. A clean summary never hides an anomaly that the oracles of
:mod:`brokerproof.harness.oracles.recorded_anomalies` would find."""

from dataclasses import dataclass
from typing import ClassVar, Protocol, Self, TypeVar

import pyarrow as pa

from brokerproof.reports.judging.protocol_columns import all_known

DELIVERIES, ORDER, WINDOWS, CONNECTION = "deliveries", "order", "windows", "connection"
CHANNELS, QUEUE_USE, SCOPE_PROTOCOLS, ORACLE_JUDGED = (
    "channels",
    "queue_use",
    "scope_protocols",
    "oracle_judged",
)
"""The kinds of record. :data:`brokerproof.reports.judging.merge.EMPTY` has the empty summary of
each kind."""

SCOPE = ("run", "target", "case", "example")
"""The columns that identify one recording: a case, or one example of a property."""
GROUP = ("kind", *SCOPE, "queue", "producer", "conn", "subscription", "block")
"""The columns that identify a group."""
SUMMARIES = pa.schema(
    [
        ("kind", pa.string()),
        ("run", pa.string()),
        ("target", pa.string()),
        ("case", pa.string()),
        ("example", pa.int64()),
        ("queue", pa.string()),
        ("producer", pa.int64()),
        ("conn", pa.int64()),
        ("subscription", pa.string()),
        ("block", pa.int64()),
        ("place", pa.int64()),
        ("summary", pa.binary()),
    ]
)
"""A row for each group of each piece. ``producer`` is -1 for messages without a stamp, and
:data:`CONSUMES` in the ``queue_use`` rows of consumers. ``block`` counts blocks of
:data:`brokerproof.reports.judging.delivery_bitmaps.BLOCK` messages. A column that does not apply is
0 or empty. ``place`` is the place of the piece in its source."""
CONSUMES = -2

Later = TypeVar("Later", contravariant=True)


class Summary(Protocol[Later]):
    """One group in consecutive pieces.

    Without arguments the constructor makes the empty summary. ``Later`` is the summary of a single
    piece: for most kinds, the class itself."""

    always_kept: ClassVar[bool] = False
    """True if later steps read the summary even if it needs no recheck."""

    def merge(self, later: Later) -> Self:
        """Return the summary of these pieces and the next piece, ``later``."""
        ...

    @property
    def needs_recheck(self) -> bool:
        """True if the events of the group must be read again."""
        return False

    def highest_delivered(self, block: int) -> int:
        """Return the highest number of a message in ``block`` that certainly arrived, or -1."""
        return -1


@dataclass(frozen=True)
class QueueUse(Summary["QueueUse"]):
    """A connection consumes from a queue, or sends a producer's messages to it."""

    def merge(self, later: Self) -> Self:
        return self


@dataclass(frozen=True)
class ScopeProtocols(Summary["ScopeProtocols"]):
    """The protocols of one scope, a bit for each (:func:`all_known`). ``needs_recheck`` is true if
    something that was sent could not be read."""

    spoken: int = 0

    def merge(self, later: Self) -> Self:
        return type(self)(self.spoken | later.spoken)

    @property
    def needs_recheck(self) -> bool:
        return not all_known(self.spoken)


@dataclass(frozen=True)
class OracleJudged(Summary["OracleJudged"]):
    """A connection that is judged by the oracles of its protocol
    (:mod:`brokerproof.reports.judging.amqp`). If ``summarised`` (AMQP 0-9-1), its ``channels`` row
    decides whether that is necessary."""

    summarised: bool = True

    def merge(self, later: Self) -> Self:
        return type(self)(self.summarised and later.summarised)

    @property
    def needs_recheck(self) -> bool:
        """True unless another summary decides."""
        return not self.summarised
