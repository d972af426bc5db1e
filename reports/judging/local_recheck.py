"""The second look where little is to be read again: in this process, with the rules of
:mod:`brokerproof.reports.judging.recheck` and without its shuffles, each of which costs more than
all there is to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.harness.trace.facts import When
from brokerproof.reports.judging import recheck
from brokerproof.reports.judging.recheck_plan import FEW, Scope, Wanted
from brokerproof.reports.judging.recheck_plan import SCOPE as SCOPE_NAMES
from brokerproof.reports.judging.segment_summary import CONSUMES, SCOPE, TOUCH

EVENTS = 50_000
"""Of no more events the second look is had here."""
_ORDER = [(name, "ascending") for name in (*SCOPE_NAMES, "conn", "place", "row")]
Row = Mapping[str, Any]


@dataclass
class Beside:
    """What the fates of messages depend on besides the facts that were read again: queues that
    somebody sends to, and scopes in which all that was sent could be read."""

    sent_to: Collection[tuple[Scope, str]] = field(default_factory=frozenset)
    complete: Collection[Scope] = field(default_factory=frozenset)


def few(events: DataFrame) -> pa.Table | None:
    """All of these events (:data:`brokerproof.reports.judging.event_filter.EVENTS`), in order; None
    if they are too many."""
    table = events.limit(EVENTS + 1).toArrow()
    return table.sort_by(_ORDER) if table.num_rows <= EVENTS else None


def beside(merged: DataFrame, events: pa.Table) -> Beside | None:
    """What the merged summaries say about the scopes and queues of these events; None if those are
    too many to ask for."""
    cases = events.column("case").unique().to_pylist()
    if len(cases) > FEW:
        return None
    what, asked = F.col("what"), F.col("case").isin(cases)
    senders = (what == TOUCH) & (F.col("producer") > CONSUMES)
    some = merged.where(asked & (senders | ((what == SCOPE) & F.col("fine")))).select(
        "what", *SCOPE_NAMES, "queue"
    )
    rows = some.distinct().limit(EVENTS + 1).collect()
    if len(rows) > EVENTS:
        return None
    return Beside(
        {(tuple(row)[1:5], row.queue) for row in rows if row.what == TOUCH},
        {tuple(row)[1:5] for row in rows if row.what == SCOPE},
    )


def found(events: pa.Table, about: Beside, ground: Expectations, again: Wanted) -> pa.Table:
    """The irregularities (:data:`brokerproof.reports.judging.recheck.FOUND`) in events that are in
    order."""
    facts = list(recheck.facts_of(iter(events.to_batches()), ground, again))
    rows: list[Row] = [recheck.overrun_of(fact) for fact in facts if fact["fact"] == "overrun"]
    if again.numbered or again.whole or again.everything:
        rows += of_messages(facts, about)
    return pa.Table.from_pylist([_complete(row) for row in rows], schema=recheck.FOUND)


def of_messages(facts: Sequence[Row], about: Beside) -> Iterable[Row]:
    """What is wrong with single messages, with their order, and what is lost."""
    messages = sorted(_joined(facts, about), key=_message)
    judged = list(recheck.messages_of(messages))
    came: dict[Any, int] = defaultdict(lambda: -1)
    for row in judged:
        if row["kind"] == "first":
            came[_flow(row)] = max(came[_flow(row)], row["number"])
    for row in judged:
        if row["kind"] == "missing" and row["number"] < came[_flow(row)]:
            yield {**row, "kind": "lost"}
        elif row["kind"] not in ("first", "missing"):
            yield row
    counting = (row for row in judged if row["kind"] == "first" and not row["strange"])
    yield from recheck.lines_of(sorted(counting, key=_line))


def _joined(facts: Sequence[Row], about: Beside) -> Iterable[Row]:
    """The facts about messages with what :func:`brokerproof.reports.judging.recheck.by_message`
    joins to them."""
    left: dict[Any, When] = {}
    departed: dict[Any, When] = {}
    selective = set()
    for row in facts:
        queue = (_scope(row), row["queue"])
        when = (row["at"], row["seq"])
        if row["fact"] == "unsubscribed":
            left[_scope(row), row["conn"], row["subscription"]] = when
            if not row["flag"]:
                departed[queue] = min(when, departed.get(queue, when))
        elif row["fact"] == "subscribed" and row["flag"]:
            selective.add(queue)
    for row in facts:
        if row["fact"] not in ("sent", "delivered"):
            continue
        scope, queue = _scope(row), (_scope(row), row["queue"])
        yield {
            **row,
            "went": _struct(left.get((scope, row["conn"], row["subscription"]))),
            "departed": _struct(departed.get(queue)),
            "selective": queue in selective,
            "sent_to": queue in about.sent_to,
            "complete": scope in about.complete,
            "stamped_for": row["queue"] if row["producer"] >= 0 else "",
        }


def _struct(when: When | None) -> Mapping[str, int] | None:
    return None if when is None else {"at": when[0], "seq": when[1]}


def _scope(row: Row) -> Scope:
    return row["run"], row["target"], row["case"], row["example"]


def _message(row: Row) -> Any:
    return (*_scope(row), row["stamped_for"], row["producer"], row["number"], row["at"], row["seq"])


def _flow(row: Row) -> Any:
    return (*_scope(row), row["queue"], row["producer"])


def _line(row: Row) -> Any:
    (first, *_) = row["witness"]
    return (
        *_scope(row),
        row["conn"],
        row["subscription"],
        row["producer"],
        first["at_ns"],
        first["seq"],
    )


def _complete(row: Row) -> Row:
    return dict.fromkeys(recheck.FOUND.names) | dict(row)
