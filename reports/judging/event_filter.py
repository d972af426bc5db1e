"""The event filter: which events of a piece a recheck reads.

On a connection with suspicious messages, these events matter: the few frames that negotiated,
subscribed or closed; the messages that the plan names; and their settlements, wherever they are. A
frame that answers an earlier batch may be such a settlement, so it is read too. Such frames are
never more numerous than the messages in flight. Of the cumulative answers that cover a message,
only the first is needed."""

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
    row_origins,
)
from brokerproof.reports.judging.dense_ids import Bools, Ints, Pairs, in_common
from brokerproof.reports.judging.protocol_columns import OF_AMQP091, OF_CORE
from brokerproof.reports.judging.recheck_plan import ConnectionKey, RecheckPlan
from brokerproof.reports.judging.summary import SCOPE

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
"""The events that a recheck reads."""

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


class EventFilter:
    """Picks the events of one piece. With ``only``, it picks every event of these connections and
    no other events."""

    def __init__(
        self, plan: RecheckPlan, place: int, only: Iterable[ConnectionKey] | None = None
    ) -> None:
        self._plan = plan
        self._place = place
        self._only = None if only is None else frozenset(only)
        self._names = Names.none()
        self._rows = 0
        self._connections: list[tuple[bool, bool]] = []
        """For each connection: whether it is read, and whether all its messages are read."""
        self._cumulative: list[frozenset[str]] = []
        self._groups = Pairs()
        self._queues = Pairs()
        self._numbered: list[tuple[int, bool]] = []
        """For each group: its place among those with numbered messages (-1: none), and whether all
        its messages matter."""

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return the chosen events of a batch, or None if there are none. Batches must arrive in
        order."""
        begin, self._rows = self._rows, self._rows + batch.num_rows
        if not batch.num_rows:
            return None
        origins = row_origins(batch, self._names)
        self._look_up_connections()
        read = np.array(self._connections, np.bool_).reshape(-1, 2)
        rows = np.flatnonzero(read[origins.connection, 0] & _FULL[origins.what])
        if not len(rows):
            return None
        part = batch.take(pa.array(rows))
        events = columns(part, self._names, origins.of(rows))
        full = read[events.connection, 1]
        kept = np.flatnonzero(self._kept(events, Headers(part.column("headers")), full))
        return self._table(part, events, kept, rows + begin) if len(kept) else None

    def _look_up_connections(self) -> None:
        plan = self._plan
        for number in range(len(self._connections), len(self._names.connections)):
            scope, conn = self._names.connection(number)
            connection = (*scope, conn)
            if self._only is not None:
                read = full = connection in self._only
            else:
                read = plan.everything or connection in plan.connections
                full = plan.everything or connection in plan.full
            self._connections.append((read, full))
            self._cumulative.append(plan.cumulative.get(connection, frozenset()))

    def _kept(self, events: Columns, headers: Headers, full: Bools) -> Bools:
        kept = _ALWAYS[events.what] | full
        sent, got = self._named(events, events.sent), self._named(events, events.got)
        if not self._plan.everything:
            # On a connection that is read completely, keep only these of the messages that it sent:
            # those that the plan names and those that only a body distinguishes.
            kept[events.sent.rows] = sent | ~events.sent.stamped
        kept[events.got.rows] |= got
        if not full.all():
            _keep_answers(kept, events, got, self._cumulative_of(events))
            _keep_receipts(kept, events, headers)
        if (events.spoken == OF_AMQP091).any() or (events.spoken == OF_CORE).any():
            _keep_others(kept, events)
        return kept

    def _named(self, events: Columns, messages: Messages) -> Bools:
        names, plan = self._names, self._plan
        groups = self._groups.of(
            self._queues.of(events.scope[messages.rows], messages.queue), messages.producer + 1
        )
        for number in range(len(self._numbered), len(self._groups)):
            pair, producer = self._groups.parts(number)
            scope, queue = self._queues.parts(pair)
            group = (*names.scopes.values[scope], names.queues.values[queue], producer - 1)
            self._numbered.append((plan.numbered.get(group, -1), group in plan.whole))
        if not len(groups):
            return np.empty(0, np.bool_)
        places = np.array(self._numbered, np.int64)[groups]
        named: Bools = plan.ranges.contains(places[:, 0], messages.number) | (places[:, 1] == 1)
        return named

    def _cumulative_of(self, events: Columns) -> Bools:
        """For each delivery, return whether its subscription settles cumulatively."""
        cumulative = np.zeros(len(events.got.rows), np.bool_)
        if not any(self._cumulative):
            return cumulative
        names = np.array(self._names.subscriptions.values, object)
        connection = events.connection[events.got.rows]
        for number, subscriptions in enumerate(self._cumulative):
            if not subscriptions:
                continue
            own = np.flatnonzero(connection == number)
            # An AMQP 1.0 client may give no name, and the broker then generates one.
            cumulative[own] = "" in subscriptions or [
                name in subscriptions for name in names[events.subscription[own]]
            ]
        return cumulative

    def _table(
        self, batch: pa.RecordBatch, events: Columns, rows: Ints, numbers: Ints
    ) -> pa.RecordBatch:
        part = batch.take(pa.array(rows))
        producer, number = np.zeros(len(batch), np.int64), np.full(len(batch), -1, np.int64)
        for messages in (events.sent, events.got):
            producer[messages.rows], number[messages.rows] = messages.producer, messages.number
        carries = pc.is_in(part.column("command").cast(pa.string()), pa.array(sorted(WITH_BODY)))
        with_body = pc.fill_null(carries, False).to_numpy(zero_copy_only=False) & (number[rows] < 0)
        bodies, sizes = part.column("body"), part.column("body_size")
        for place in np.flatnonzero(with_body).tolist():
            key = key_of(bodies[place].as_py() or b"", sizes[place].as_py() or 0)
            producer[rows[place]], number[rows[place]] = key
        scopes = [self._names.scopes.values[scope] for scope in events.scope[rows].tolist()]
        chosen = {
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
            [chosen[field.name].cast(field.type) for field in EVENTS], schema=EVENTS
        )


def _keep_answers(kept: Bools, events: Columns, named: Bools, cumulative: Bools) -> None:
    """Keep the answers to named messages and those that may answer an earlier batch. With
    cumulative answers, also keep the deliveries that a later batch may answer."""
    got, connection = events.got.rows, events.connection
    match = _matched(connection, got, events.tokens, events.answers, events.answer_tokens)
    known = match >= 0
    kept[events.answers[~known]] = True
    kept[events.answers[known]] |= named[match[known]]
    if not cumulative.any():
        return
    subs = Pairs()
    sub = subs.of(connection[got], events.subscription)
    for number in np.unique(sub[cumulative]).tolist():
        answering = np.flatnonzero(known & (np.append(sub, -1)[match] == number))
        reach = np.maximum.accumulate(match[answering])
        own = np.flatnonzero(sub == number)
        # One entry for the deliveries of earlier batches, and one for each named delivery in this
        # batch.
        begin = np.concatenate([[0], own[named[own]]])
        first = np.searchsorted(reach, begin)
        chosen = answering[np.unique(first[first < len(answering)])]
        kept[events.answers[chosen]] = True
        kept[got[match[chosen]]] = True
        kept[got[own[own > (reach[-1] if len(reach) else -1)]]] = True


def _keep_others(kept: Bools, events: Columns) -> None:
    """For AMQP 0-9-1, keep the counted messages and cumulative answers. For CORE, keep everything,
    because answers do not name the deliveries that they answer."""
    old = events.spoken == OF_AMQP091
    kept |= old & ((events.what == cols.SEND) | (events.what == cols.RECEIPT))
    kept |= (events.spoken == OF_CORE) & _FULL[events.what]
    if events.tagged is not None:
        kept[events.tagged.rows[events.tagged.multiple]] = True


def _matched(
    connection: Ints, rows: Ints, tokens: pa.Array, answers: Ints, answer_tokens: pa.Array
) -> Ints:
    """For each answer, return the place of the earlier delivery that it names (-1: not in this
    batch, or ambiguous)."""
    delivery, answer = _by_connection(connection, (rows, answers), (tokens, answer_tokens))
    size = max(delivery.max(initial=-1), answer.max(initial=-1)) + 1
    place = np.full(size, -1, np.int64)
    place[delivery] = np.where(np.bincount(delivery)[delivery] == 1, np.arange(len(rows)), -1)
    match = place[answer]
    match[(match >= 0) & (np.append(rows, -1)[match] > answers)] = -1
    return match


def _keep_receipts(kept: Bools, events: Columns, headers: Headers) -> None:
    """Keep the receipts, except those that an irrelevant frame of this batch requested."""
    rows = np.flatnonzero(events.what == cols.RECEIPT)
    if not len(rows):
        return
    asking = np.flatnonzero((events.what == cols.SEND) | (events.what == cols.ANSWER))
    names = headers.of("receipt", asking), headers.of("receipt-id", rows)
    asked, answered = _by_connection(events.connection, (asking, rows), names)
    dropped = ~kept[asking]
    first = np.full(max(asked.max(initial=-1), answered.max(initial=-1)) + 1, len(events))
    np.minimum.at(first, asked[dropped], asking[dropped])
    kept[rows] |= (rows < first[answered]) | np.isin(answered, asked[~dropped])


def _by_connection(
    connection: Ints, rows: tuple[Ints, Ints], names: tuple[pa.Array, pa.Array]
) -> list[Ints]:
    """Return numbers for the names in two sets of rows. A name that occurs on two connections has
    two numbers."""
    named = in_common(*names)
    return in_common(
        *(
            pa.array((connection[some] << 32) | number)
            for some, number in zip(rows, named, strict=True)
        )
    )
