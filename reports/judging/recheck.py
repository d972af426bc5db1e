"""The recheck: suspicious messages are read again, one by one, to find witnesses. Only connections
that belong to a suspicious group are read. Their events pass through a few steps; each step is a
function of an iterator of rows:

====================  =========================  ==================================================
step                  sees together              yields
====================  =========================  ==================================================
:func:`facts_of`      events of a connection     facts: sent, delivered, subscribed, overrun …
:func:`messages_of`   facts about a message      anomalies, first deliveries, missing messages
:func:`lost_of`       a producer's messages on   the missing messages that a later one overtook
                      a queue
:func:`disordered_of` first deliveries of a      those that arrived after a later one
                      producer to a subscription
====================  =========================  ==================================================

The steps run in this process or on Spark (:mod:`brokerproof.reports.judging.executors`). The rules
are those of :mod:`brokerproof.harness.oracles.recorded_anomalies`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic

import pyarrow as pa

from brokerproof.harness.oracles import recorded_anomalies
from brokerproof.harness.oracles.connection_reader import ConnectionReader
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.harness.oracles.recorded_anomalies import (
    Anomaly,
    MessageContext,
    number_of,
    producer_of,
    slot,
)
from brokerproof.harness.protocols.stomp.fact_reader import Delivery, StompFactReader, Subscription
from brokerproof.harness.trace.facts import (
    Delivered,
    End,
    Fact,
    Key,
    Overrun,
    Sent,
    Subscribed,
    UnreadableConnection,
    Unsubscribed,
    When,
)
from brokerproof.harness.trace.facts import Row as ReaderRow
from brokerproof.reports.judging.columns import NEEDED
from brokerproof.reports.judging.event_filter import EVENTS, EventFilter
from brokerproof.reports.judging.executors import Executor, InProcess, OnSpark, Row, Rows
from brokerproof.reports.judging.recheck_plan import FEW, ConnectionKey, RecheckPlan, scope_of
from brokerproof.reports.judging.summary import CONSUMES, QUEUE_USE, SCOPE, SCOPE_PROTOCOLS
from brokerproof.reports.judging.windows import WindowClosed
from brokerproof.reports.sources import Opener, Piece, Source, Work
from brokerproof.reports.sources.dataframes import arrow
from brokerproof.reports.spark.on_demand import F
from brokerproof.reports.spark.schema import in_batches, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_IN_PROCESS = 50_000
"""The maximum number of events that are judged in this process."""

_SCOPE_FIELDS = [
    ("run", pa.string()),
    ("target", pa.string()),
    ("case", pa.string()),
    ("example", pa.int64()),
]
_WHEN = pa.struct([("at", pa.int64()), ("seq", pa.int64())])

FACTS = pa.schema(
    [
        *_SCOPE_FIELDS,
        ("fact", pa.string()),
        ("queue", pa.string()),
        ("conn", pa.int64()),
        ("subscription", pa.string()),
        ("stamped_for", pa.string()),
        ("producer", pa.int64()),
        ("number", pa.int64()),
        ("at", pa.int64()),
        ("seq", pa.int64()),
        ("confirmed", pa.bool_()),
        ("withdrawn", pa.bool_()),
        ("anycast", pa.bool_()),
        ("strange", pa.bool_()),
        ("channel", pa.int64()),
        ("routed", pa.bool_()),
        ("marked", pa.bool_()),
        ("end", pa.string()),
        ("ended_at", pa.int64()),
        ("ended_seq", pa.int64()),
        ("flag", pa.bool_()),
        ("what", pa.string()),
    ]
)
"""Facts of the connections (:data:`brokerproof.harness.trace.facts.Fact`). ``stamped_for`` is
:func:`brokerproof.harness.oracles.recorded_anomalies.slot`'s queue. ``flag`` is true if a
subscription is selective (in ``subscribed``) or if its end was confirmed (in ``unsubscribed``).
``what`` describes an ``overrun``."""

ANOMALIES = pa.schema(
    [
        *_SCOPE_FIELDS,
        ("kind", pa.string()),
        ("queue", pa.string()),
        ("conn", pa.int64()),
        ("subscription", pa.string()),
        ("what", pa.string()),
        ("uncertain", pa.bool_()),
        ("witness", pa.list_(pa.struct([("at_ns", pa.int64()), ("seq", pa.int64())]))),
        ("producer", pa.int64()),
        ("number", pa.int64()),
        ("strange", pa.bool_()),
    ]
)
"""Anomalies. Between two steps, there are also rows of the kinds ``first`` and ``missing``, which
have the producer and the number that determine the order. A ``strange`` first delivery has no place
in the order."""

_SUBSCRIPTION_ENDS = pa.schema(
    [*_SCOPE_FIELDS, ("conn", pa.int64()), ("subscription", pa.string()), ("went", _WHEN)]
)
_CONSUMERS = pa.schema(
    [*_SCOPE_FIELDS, ("queue", pa.string()), ("departed", _WHEN), ("selective", pa.bool_())]
)
_SUBSCRIPTION = (*SCOPE, "conn", "subscription")
_QUEUE = (*SCOPE, "queue")
_MESSAGE = (*SCOPE, "stamped_for", "producer", "number")
_COLUMNS = (*NEEDED, "seq", "body_size")


@dataclass(frozen=True)
class QueueContext(Generic[Rows]):
    """Facts that affect what happens to a message, besides the events that are read again."""

    destinations: Rows
    """Queues to which somebody sends, with ``sent_to``."""
    scopes: Rows
    """Scopes in which everything that was sent could be read, with ``complete``."""


def recheck(
    spark: SparkSession, source: Source, ground: Expectations, merged: DataFrame, plan: RecheckPlan
) -> DataFrame | None:
    """Return the anomalies of the messages and connections that the plan names; None if the plan
    names none."""
    parts = []
    if plan.closed:
        parts.append(overruns_in_pieces(spark, source, ground, plan))
    if plan.connections or plan.everything:
        events, context = read_events(spark, source, plan), queue_context(merged)
        if not plan.everything:
            # Counting the rows means reading the recording. The rows are kept, so that the
            # recording is read only once even if this process cannot hold them.
            events = OnSpark().keep(events)
        few = None if plan.everything else _in_process(events, context)
        if few is None:
            parts.append(anomalies(OnSpark(), events, context, ground, plan))
        else:
            rows = anomalies(InProcess(), *few, ground, plan)
            parts.append(arrow(spark, pa.Table.from_pylist(rows, schema=ANOMALIES)))
    return reduce(lambda above, below: above.unionByName(below), parts) if parts else None


def anomalies(
    executor: Executor[Rows],
    events: Rows,
    context: QueueContext[Rows],
    ground: Expectations,
    plan: RecheckPlan,
) -> Rows:
    """Return the anomalies in events (:data:`brokerproof.reports.judging.event_filter.EVENTS`)."""
    by, order = (*SCOPE, "conn"), ("place", "row")
    read_facts = partial(facts_of, ground=ground, plan=plan)
    facts = executor.keep(executor.run(read_facts, events, FACTS, by, order))
    overruns = executor.run(overruns_of, executor.where(facts, "fact", "overrun"), ANOMALIES)
    if not plan.names_messages:
        return overruns
    messages = _with_context(executor, facts, context)
    judged = executor.keep(executor.run(messages_of, messages, ANOMALIES, _MESSAGE, ("at", "seq")))
    flows = executor.where(judged, "kind", "first", "missing")
    firsts = executor.where(judged, "kind", "first")
    return executor.union(
        overruns,
        executor.where(judged, "kind", *recorded_anomalies.KINDS),
        executor.run(lost_of, flows, ANOMALIES, (*_QUEUE, "producer"), ("kind",)),
        executor.run(disordered_of, firsts, ANOMALIES, (*_SUBSCRIPTION, "producer"), ("witness",)),
    )


def _with_context(executor: Executor[Rows], facts: Rows, context: QueueContext[Rows]) -> Rows:
    """Return the facts about messages, with their context."""
    departures = executor.where(facts, "fact", "unsubscribed")
    ends = executor.run(
        _ends_of, departures, _SUBSCRIPTION_ENDS, _SUBSCRIPTION, order=("at", "seq")
    )
    consuming = executor.where(facts, "fact", "subscribed", "unsubscribed")
    consumers = executor.run(_consumers_of, consuming, _CONSUMERS, _QUEUE, order=("at", "seq"))
    messages = executor.where(facts, "fact", "sent", "delivered")
    messages = executor.join(messages, ends, _SUBSCRIPTION, "went")
    messages = executor.join(messages, consumers, _QUEUE, "departed", "selective")
    messages = executor.join(messages, context.destinations, _QUEUE, "sent_to")
    return executor.join(messages, context.scopes, SCOPE, "complete")


def queue_context(merged: DataFrame) -> QueueContext[DataFrame]:
    kind = F.col("kind")
    destinations = merged.where((kind == QUEUE_USE) & (F.col("producer") > CONSUMES))
    return QueueContext(
        destinations.select(*_QUEUE, F.lit(True).alias("sent_to")).distinct(),
        merged.where(kind == SCOPE_PROTOCOLS).select(
            *SCOPE, (~F.col("needs_recheck")).alias("complete")
        ),
    )


def _in_process(
    events: DataFrame, context: QueueContext[DataFrame]
) -> tuple[list[Row], QueueContext[list[Row]]] | None:
    """Return the events and their context as lists; None if there are too many."""

    def collected(frame: DataFrame) -> list[Row] | None:
        table = frame.limit(MOST_IN_PROCESS + 1).toArrow()
        return table.to_pylist() if table.num_rows <= MOST_IN_PROCESS else None

    rows = collected(events)
    cases = {row["case"] for row in rows or ()}
    if rows is None or len(cases) > FEW:
        return None
    of_cases = F.col("case").isin(*cases)
    destinations = collected(context.destinations.where(of_cases))
    scopes = collected(context.scopes.where(of_cases))
    if destinations is None or scopes is None:
        return None
    return rows, QueueContext(destinations, scopes)


# --- reading events again -------------------------------------------------------------------------


def read_events(spark: SparkSession, source: Source, plan: RecheckPlan) -> DataFrame:
    """Read the events that the plan names
    (:data:`brokerproof.reports.judging.event_filter.EVENTS`)."""
    return source.each(spark, event_reader(source.open, plan), spark_schema(EVENTS))


def event_reader(open_piece: Opener, plan: RecheckPlan) -> Work:
    """Return a function for tasks that reads a piece's events that the plan names
    (:data:`brokerproof.reports.judging.event_filter.EVENTS`)."""

    def read(piece: Piece) -> Iterator[pa.RecordBatch]:
        event_filter = EventFilter(plan, piece["place"])
        for batch in open_piece(piece, _COLUMNS):
            events = event_filter.of(batch)
            if events is not None:
                yield events

    return read


def overruns_in_pieces(
    spark: SparkSession, source: Source, ground: Expectations, plan: RecheckPlan
) -> DataFrame:
    """Return the overruns in those pieces for which the messages held at the beginning are
    known."""
    open_piece, closed = source.open, plan.closed

    def read(piece: Piece) -> Iterator[pa.RecordBatch]:
        known = closed[piece["place"]]
        event_filter = EventFilter(RecheckPlan(), piece["place"], known)
        readers: dict[ConnectionKey, StompFactReader] = {}
        for batch in open_piece(piece, _COLUMNS):
            events = event_filter.of(batch)
            if events is not None:
                rows = _overruns(events.to_pylist(), readers, known, ground)
                yield from in_batches(rows, ANOMALIES)

    return source.each(spark, read, spark_schema(ANOMALIES), closed)


def _overruns(
    events: Iterable[Row],
    readers: dict[ConnectionKey, StompFactReader],
    known: Mapping[ConnectionKey, WindowClosed],
    ground: Expectations,
) -> Iterator[Row]:
    for event in events:
        scope = scope_of(event)
        connection = (*scope, event["conn"])
        if connection not in readers:
            readers[connection] = resumed_reader(event["conn"], ground, known[connection])
        for fact in readers[connection].read(_reader_row(event)):
            if isinstance(fact, Overrun):
                yield from overruns_of([fact_row(scope, fact)])


def resumed_reader(conn: int, ground: Expectations, known: WindowClosed) -> StompFactReader:
    """Return a reader that continues at the beginning of a piece. Only overruns count as findings,
    because only the sizes of the messages delivered earlier are known."""
    reader = StompFactReader(conn, ground.windows, ground.window)
    for name, request in known.requests.items():
        held = {
            token: Delivery(Key(-1, 0), (0, 0), marked=False, size=size)
            for token, size in known.held.get(name, {}).items()
        }
        length = sum(delivery.size for delivery in held.values())
        reader.subscriptions[name] = Subscription(
            name,
            request.queue,
            request.mode,
            request.window,
            request.unit,
            held=held,
            held_bytes=length,
        )
    return reader


# --- the steps ------------------------------------------------------------------------------------


def facts_of(events: Iterable[Row], ground: Expectations, plan: RecheckPlan) -> Iterator[Row]:
    """Yield the facts (:data:`FACTS`) of the events of connections, each in order."""
    for (*scope, conn), rows in groupby(events, key=lambda row: (*scope_of(row), row["conn"])):
        for fact in connection_facts(ConnectionReader(conn, ground), rows, scope, plan):
            yield fact_row(scope, fact)


def connection_facts(
    reader: ConnectionReader, events: Iterator[Row], scope: Sequence[Any], plan: RecheckPlan
) -> Iterator[Fact]:
    """Yield the facts of one connection. Messages are used only if the plan names them, because
    others were read incompletely. Windows are judged only if the whole connection was read."""
    destinations: dict[str, str] = {}
    judges_windows = plan.everything or (*scope, reader.conn) in plan.unclear

    def matters(fact: Fact) -> bool:
        if isinstance(fact, Overrun):
            return judges_windows
        if plan.everything or not isinstance(fact, (Sent, Delivered)) or not fact.key.stamped:
            return True
        # The subscription determines the name of the queue; its messages may use another name.
        names = {fact.queue, destinations.get(fact.queue, fact.queue)}
        producer, number = fact.key.producer, fact.key.number
        return any(plan.includes((*scope, name, producer), number) for name in names)

    def every() -> Iterator[Fact]:
        queues: dict[str, str] = {}
        for event in events:
            row = _reader_row(event)
            headers = row.headers
            if event["command"] == "SUBSCRIBE":
                queues[headers.get("id", "")] = headers.get("destination", "")
            elif (
                event["command"] == "MESSAGE"
                and (queue := queues.get(headers.get("subscription", ""))) is not None
            ):
                destinations[queue] = headers.get("destination", queue)
            yield from reader.read(row)
        yield from reader.end()

    yield from filter(matters, every())


def overruns_of(facts: Iterable[Row]) -> Iterator[Row]:
    """Yield the overruns of windows as anomalies."""
    for fact in facts:
        names = fact["queue"], fact["conn"], fact["subscription"]
        when = fact["at"], fact["seq"]
        yield anomaly_row(scope_of(fact), Anomaly("overrun", *names, fact["what"], (when,)))


def messages_of(facts: Iterable[Row]) -> Iterator[Row]:
    """Yield the anomalies of single messages, from facts with context; also yield their ``first``
    deliveries, and messages that are ``missing`` if a later one of their producer arrived."""
    for (*scope, _, producer, number), group in groupby(
        facts, key=lambda row: (*scope_of(row), row["stamped_for"], row["producer"], row["number"])
    ):
        rows = list(group)
        key = Key(producer, number)
        sends = [_sent(row, key) for row in rows if row["fact"] == "sent"]
        deliveries = [_delivered(row, key) for row in rows if row["fact"] == "delivered"]
        context = _message_context(rows)
        for anomaly in recorded_anomalies.of_message(key, sends, deliveries, context):
            yield anomaly_row(scope, anomaly)
        if len(sends) != 1:
            continue
        (sent,) = sends
        position = {"producer": producer_of(sent), "number": number_of(sent)}
        if not deliveries and recorded_anomalies.could_be_lost(sent, context):
            missing = recorded_anomalies.missing(key, sent, context)
            yield {**anomaly_row(scope, missing), **position, "kind": "missing"}
        for got, counts in recorded_anomalies.first_deliveries(sent, deliveries, context):
            names = got.queue, got.conn, got.subscription
            first = Anomaly("first", *names, str(key), (got.when,))
            yield {**anomaly_row(scope, first), **position, "strange": not counts}


def lost_of(flow: Iterable[Row]) -> Iterator[Row]:
    """Yield the missing messages that a later message of their producer overtook. In each group,
    first deliveries precede missing messages."""
    for _, rows in groupby(flow, key=lambda row: (*scope_of(row), row["queue"], row["producer"])):
        latest = -1
        for row in rows:
            if row["kind"] == "first":
                latest = max(latest, row["number"])
            elif row["number"] < latest:
                yield {**row, "kind": "lost"}


def disordered_of(firsts: Iterable[Row]) -> Iterator[Row]:
    """Yield the first deliveries that arrived after a later message of their producer."""
    for (*scope, conn, subscription, _), rows in groupby(
        firsts, key=lambda row: (*scope_of(row), row["conn"], row["subscription"], row["producer"])
    ):
        order = recorded_anomalies.Line()
        for row in rows:
            if row["strange"]:
                continue
            when = row["witness"][0]["at_ns"], row["witness"][0]["seq"]
            names = row["what"], row["queue"], conn, subscription
            anomaly = order.update(row["number"], *names, when)
            if anomaly is not None:
                yield anomaly_row(scope, anomaly)


def _ends_of(departures: Iterable[Row]) -> Iterator[Row]:
    """Yield the time at which each subscription last ended."""
    for _, rows in groupby(
        departures, key=lambda row: (*scope_of(row), row["conn"], row["subscription"])
    ):
        (*_, last) = rows
        went = {"at": last["at"], "seq": last["seq"]}
        yield {**{name: last[name] for name in _SUBSCRIPTION}, "went": went}


def _consumers_of(facts: Iterable[Row]) -> Iterator[Row]:
    """For each queue, yield when the first consumer left unconfirmed, and whether a consumer has a
    selector."""
    for names, rows in groupby(facts, key=lambda row: (*scope_of(row), row["queue"])):
        departed, selective = None, False
        for row in rows:
            if row["fact"] == "subscribed":
                selective |= row["flag"]
            elif departed is None and not row["flag"]:
                departed = {"at": row["at"], "seq": row["seq"]}
        yield {
            **dict(zip(_QUEUE, names, strict=True)),
            "departed": departed,
            "selective": selective,
        }


# --- rows -----------------------------------------------------------------------------------------


def _reader_row(event: Row) -> ReaderRow:
    headers = {header["name"]: header["value"] for header in reversed(event["headers"] or ())}
    key = Key(event["producer"], event["number"]) if event["number"] >= 0 else None
    frame = event["command"] or "", headers, key, event["size"] or 0
    return ReaderRow((event["at_ns"], event["seq"]), event["kind"], *frame, event["protocol"] or "")


def fact_row(scope: Sequence[Any], fact: Fact) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(FACTS.names) | dict(zip(SCOPE, scope, strict=True))
    row["conn"] = fact.conn
    if isinstance(fact, UnreadableConnection):
        return {**row, "fact": "unreadable"}
    row["queue"] = fact.queue
    row["at"], row["seq"] = fact.when
    if isinstance(fact, (Sent, Delivered)):
        row["producer"], row["number"] = fact.key
        row["stamped_for"] = slot(fact)[1]
        row["anycast"] = fact.anycast
    match fact:
        case Sent():
            return {
                **row,
                "fact": "sent",
                "confirmed": fact.confirmed,
                "withdrawn": fact.withdrawn,
                "strange": fact.strange,
                "channel": fact.channel,
                "routed": fact.routed,
            }
        case Delivered():
            ended_at, ended_seq = fact.ended or (None, None)
            return {
                **row,
                "fact": "delivered",
                "subscription": fact.subscription,
                "marked": fact.marked,
                "end": fact.end.value,
                "ended_at": ended_at,
                "ended_seq": ended_seq,
            }
        case Subscribed():
            row |= {"fact": "subscribed", "flag": fact.selective}
        case Unsubscribed():
            row |= {"fact": "unsubscribed", "flag": fact.noticed}
        case Overrun():
            row |= {"fact": "overrun", "what": str(fact)}
    return {**row, "subscription": fact.subscription}


def _sent(row: Row, key: Key) -> Sent:
    flags = row["confirmed"], row["withdrawn"], row["anycast"], row["strange"]
    when = row["at"], row["seq"]
    return Sent(key, row["queue"], row["conn"], when, *flags, row["channel"], row["routed"])


def _delivered(row: Row, key: Key) -> Delivered:
    ended = None if row["ended_at"] is None else (row["ended_at"], row["ended_seq"])
    names = row["queue"], row["conn"], row["subscription"]
    when = row["at"], row["seq"]
    return Delivered(key, *names, when, row["marked"], End(row["end"]), ended, row["anycast"])


def _message_context(rows: Sequence[Row]) -> MessageContext:
    return MessageContext(
        all(row["complete"] for row in rows),
        {
            (row["conn"], row["subscription"]): _when(row["went"])
            for row in rows
            if row["went"] is not None
        },
        {row["queue"]: _when(row["departed"]) for row in rows if row["departed"] is not None},
        {},
        frozenset(row["queue"] for row in rows if row["selective"]),
        frozenset(row["queue"] for row in rows if row["sent_to"]),
    )


def _when(value: Mapping[str, int]) -> When:
    return value["at"], value["seq"]


def anomaly_row(scope: Sequence[Any], anomaly: Anomaly) -> dict[str, Any]:
    return {
        **dict(zip(SCOPE, scope, strict=True)),
        "kind": anomaly.kind,
        "queue": anomaly.queue,
        "conn": anomaly.conn,
        "subscription": anomaly.subscription,
        "what": anomaly.what,
        "uncertain": anomaly.uncertain,
        "witness": [{"at_ns": at, "seq": seq} for at, seq in anomaly.witness],
    }
