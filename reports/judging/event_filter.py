"""Which events of a piece are read again.

Of a connection that has to do with something suspicious these matter: the few frames that say what
was agreed, who came and who went; the messages that are looked for; and what decides their fate,
wherever it stands. What answers something of an earlier batch cannot be told from what does not
matter, and is read too: that is never more than was under way there. Where an answer settles all
before, the first one that reaches far enough is enough.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from brokerproof.harness.oracles.connection_reader import WITH_BODY
from brokerproof.harness.trace.columns import SCHEMA
from brokerproof.harness.trace.facts import key_of
from brokerproof.reports.judging import columns as cols
from brokerproof.reports.judging.columns import (
    WHERE,
    Columns,
    Headers,
    Messages,
    Names,
    columns,
    lines,
)
from brokerproof.reports.judging.dense_ids import Bools, Ints, Pairs, in_common
from brokerproof.reports.judging.protocol_columns import OF_AMQP091, OF_CORE
from brokerproof.reports.judging.recheck_plan import SCOPE, Line, Wanted

EVENTS = pa.schema(
    [
        *WHERE,
        ("kind", pa.string()),
        ("protocol", pa.string()),
        ("command", pa.string()),
        ("headers", SCHEMA.field("headers").type),
        ("producer", pa.int64()),
        ("number", pa.int64()),
        ("size", pa.int64()),
    ]
)
"""The events that are read again."""

_ALWAYS = np.zeros(128, np.bool_)
_ALWAYS[
    [
        cols.OTHER_OUT,
        cols.CLOSED,
        cols.ABANDONED,
        cols.OCTETS,
        cols.RARE_OUT,
        cols.RARE_IN,
        cols.UNSEEN,
    ]
] = True
_FULL = _ALWAYS.copy()
_FULL[[cols.SEND, cols.MESSAGE, cols.ANSWER, cols.RECEIPT]] = True


class Choice:
    """Picks the events of one piece. ``only``: of these connections everything, and of others
    nothing."""

    def __init__(self, again: Wanted, place: int, only: Iterable[Line] | None = None) -> None:
        self._again, self._place = again, place
        self._only = None if only is None else frozenset(only)
        self._names = Names.none()
        self._rows = 0
        self._lines: list[tuple[bool, bool]] = []
        """Of each line whether it is read, and whether every message of it is."""
        self._cumulative: list[frozenset[str]] = []
        self._groups = Pairs()
        self._queues = Pairs()
        self._numbered: list[tuple[int, bool]] = []
        """Of each group its place among those looked for by number (-1: none), and whether it is
        wanted wholly."""

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The chosen events of a batch, or None. Batches have to come in order."""
        begin, self._rows = self._rows, self._rows + batch.num_rows
        if not batch.num_rows:
            return None
        known = lines(batch, self._names)
        self._know()
        about = np.array(self._lines, np.bool_).reshape(-1, 2)
        rows = np.flatnonzero(about[known.line, 0] & _FULL[known.what])
        if not len(rows):
            return None
        some = batch.take(pa.array(rows))
        found = columns(some, self._names, known.of(rows))
        kept = np.flatnonzero(
            self._kept(found, Headers(some.column("headers")), about[found.line, 1])
        )
        return self._table(some, found, kept, rows + begin) if len(kept) else None

    def _know(self) -> None:
        """What is wanted of lines that were not seen before."""
        again = self._again
        for number in range(len(self._lines), len(self._names.lines)):
            scope, conn = self._names.line(number)
            line = (*scope, conn)
            if self._only is not None:
                self._lines.append((line in self._only, line in self._only))
            else:
                all_ = again.everything
                self._lines.append((all_ or line in again.lines, all_ or line in again.full))
            self._cumulative.append(again.cumulative.get(line, frozenset()))

    def _kept(self, found: Columns, headers: Headers, full: Bools) -> Bools:
        kept = _ALWAYS[found.what] | full
        sent, got = self._wanted(found, found.sent), self._wanted(found, found.got)
        if not self._again.everything:
            # On a line that is read fully: of what it sent only what is looked for, and what only a
            # body tells apart.
            kept[found.sent.rows] = sent | ~found.sent.stamped
        kept[found.got.rows] |= got
        if not full.all():
            _keep_answers(kept, found, got, self._cumulative_of(found))
            _keep_receipts(kept, found, headers)
        if (found.spoken == OF_AMQP091).any() or (found.spoken == OF_CORE).any():
            _keep_others(kept, found)
        return kept

    def _wanted(self, found: Columns, messages: Messages) -> Bools:
        """Which messages are looked for."""
        names, again = self._names, self._again
        groups = self._groups.of(
            self._queues.of(found.scope[messages.rows], messages.queue), messages.producer + 1
        )
        for number in range(len(self._numbered), len(self._groups)):
            of_queue, producer = self._groups.parts(number)
            scope, queue = self._queues.parts(of_queue)
            group = (*names.scopes.values[scope], names.queues.values[queue], producer - 1)
            self._numbered.append((again.numbered.get(group, -1), group in again.whole))
        if not len(groups):
            return np.empty(0, np.bool_)
        table = np.array(self._numbered, np.int64)[groups]
        chosen: Bools = again.ranges.hold(table[:, 0], messages.number) | (table[:, 1] == 1)
        return chosen

    def _cumulative_of(self, found: Columns) -> Bools:
        """Which of what was got is on a subscription that settles all before at once."""
        if not any(self._cumulative):
            return np.zeros(len(found.got.rows), np.bool_)
        names = np.array(self._names.subscriptions.values, object)
        told = np.zeros(len(found.got.rows), np.bool_)
        line = found.line[found.got.rows]
        for number in np.flatnonzero([bool(each) for each in self._cumulative]).tolist():
            mine, these = np.flatnonzero(line == number), self._cumulative[number]
            # A client of 1.0 may give no name, and the broker made one up.
            told[mine] = "" in these or [name in these for name in names[found.subscription[mine]]]
        return told

    def _table(
        self, batch: pa.RecordBatch, found: Columns, rows: Ints, numbers: Ints
    ) -> pa.RecordBatch:
        part = batch.take(pa.array(rows))
        producer, number = np.zeros(len(batch), np.int64), np.full(len(batch), -1, np.int64)
        for messages in (found.sent, found.got):
            producer[messages.rows], number[messages.rows] = messages.producer, messages.number
        carries = pc.is_in(part.column("command").cast(pa.string()), pa.array(sorted(WITH_BODY)))
        with_body = pc.fill_null(carries, False).to_numpy(zero_copy_only=False) & (number[rows] < 0)
        bodies, sizes = part.column("body"), part.column("body_size")
        for place in np.flatnonzero(with_body).tolist():
            key = key_of(bodies[place].as_py() or b"", sizes[place].as_py() or 0)
            producer[rows[place]], number[rows[place]] = key
        scopes = [self._names.scopes.values[each] for each in found.scope[rows].tolist()]
        told = {
            **{name: pa.array([scope[at] for scope in scopes]) for at, name in enumerate(SCOPE)},
            "conn": part.column("conn"),
            "place": pa.array(np.full(len(rows), self._place)),
            "row": pa.array(numbers[rows]),
            "at_ns": part.column("at_ns"),
            "seq": part.column("seq"),
            "kind": part.column("kind"),
            "protocol": part.column("protocol"),
            "command": part.column("command"),
            "headers": part.column("headers"),
            "producer": pa.array(producer[rows]),
            "number": pa.array(number[rows]),
            "size": part.column("size"),
        }
        return pa.RecordBatch.from_arrays(
            [told[each.name].cast(each.type) for each in EVENTS], schema=EVENTS
        )


def _keep_answers(kept: Bools, found: Columns, wanted: Bools, cumulative: Bools) -> None:
    """Keeps what settles the messages that are wanted, or may settle one of an earlier batch; and
    of what is settled together with others what a later batch may answer."""
    got, line = found.got.rows, found.line
    match = _matched(line, got, found.tokens, found.answers, found.answer_tokens)
    known = match >= 0
    kept[found.answers[~known]] = True
    kept[found.answers[known]] |= wanted[match[known]]
    if not cumulative.any():
        return
    subs = Pairs()
    sub = subs.of(line[got], found.subscription)
    for number in np.unique(sub[cumulative]).tolist():
        mine = np.flatnonzero(known & (np.append(sub, -1)[match] == number))
        reach = np.maximum.accumulate(match[mine])
        own = np.flatnonzero(sub == number)
        # One for what came in earlier batches, and one for each that is wanted here.
        from_ = np.concatenate([[0], own[wanted[own]]])
        first = np.searchsorted(reach, from_)
        chosen = mine[np.unique(first[first < len(mine)])]
        kept[found.answers[chosen]] = True
        kept[got[match[chosen]]] = True
        kept[got[own[own > (reach[-1] if len(reach) else -1)]]] = True


def _keep_others(kept: Bools, found: Columns) -> None:
    """Keeps of AMQP 0-9-1 what is counted, by whichever number it is answered, and what settles all
    before; of CORE, whose answers say nothing of what they answer, everything."""
    old = found.spoken == OF_AMQP091
    kept |= old & ((found.what == cols.SEND) | (found.what == cols.RECEIPT))
    kept |= (found.spoken == OF_CORE) & _FULL[found.what]
    if found.tagged is not None:
        kept[found.tagged.rows[found.tagged.multiple]] = True


def _matched(
    line: Ints, rows: Ints, tokens: pa.Array, answers: Ints, answer_tokens: pa.Array
) -> Ints:
    """For each answer the place of the delivery before it that it names; -1: none of this batch, or
    nobody knows which."""
    delivery, answer = _by_line(line, (rows, answers), (tokens, answer_tokens))
    size = max(delivery.max(initial=-1), answer.max(initial=-1)) + 1
    place = np.full(size, -1, np.int64)
    place[delivery] = np.where(np.bincount(delivery)[delivery] == 1, np.arange(len(rows)), -1)
    match = place[answer]
    match[(match >= 0) & (np.append(rows, -1)[match] > answers)] = -1
    return match


def _keep_receipts(kept: Bools, found: Columns, headers: Headers) -> None:
    """Keeps receipts but those that come behind a frame of this batch which asks for them and does
    not matter."""
    rows = np.flatnonzero(found.what == cols.RECEIPT)
    if not len(rows):
        return
    asking = np.flatnonzero((found.what == cols.SEND) | (found.what == cols.ANSWER))
    names = headers.of("receipt", asking), headers.of("receipt-id", rows)
    asked, answered = _by_line(found.line, (asking, rows), names)
    dropped = ~kept[asking]
    first = np.full(max(asked.max(initial=-1), answered.max(initial=-1)) + 1, len(found))
    np.minimum.at(first, asked[dropped], asking[dropped])
    kept[rows] |= (rows < first[answered]) | np.isin(answered, asked[~dropped])


def _by_line(line: Ints, rows: tuple[Ints, Ints], names: tuple[pa.Array, pa.Array]) -> list[Ints]:
    """Common numbers of the names in two sets of rows, each line's its own."""
    named = in_common(*names)
    return in_common(
        *(pa.array((line[some] << 32) | number) for some, number in zip(rows, named, strict=True))
    )
