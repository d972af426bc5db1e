"""The second look: what a summary found suspicious is read again, message by message, for its
witness.

Only connections that have to do with a suspicious group are read. Their events are brought together
by connection, what they amount to by message, and first deliveries by subscription; each step sorts
what fits on a disk and holds no more in memory than what is under way. The rules are those of
:mod:`brokerproof.harness.oracles.recording`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from brokerproof.harness.oracles import recording
from brokerproof.harness.oracles.connection_reader import ConnectionReader
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.harness.oracles.recording import Anomaly, MessageContext, number_of, producer_of
from brokerproof.harness.protocols.stomp.fact_reader import Delivery, StompFactReader, Subscription
from brokerproof.harness.trace.facts import (
    Delivered,
    End,
    Fact,
    Key,
    Overrun,
    Row,
    Sent,
    Subscribed,
    UnreadableConnection,
    Unsubscribed,
    When,
)
from brokerproof.reports.judging.columns import NEEDED
from brokerproof.reports.judging.event_filter import EVENTS, Choice
from brokerproof.reports.judging.recheck_plan import SCOPE, Line, Wanted
from brokerproof.reports.judging.windows import Shut
from brokerproof.reports.schema import spark_schema
from brokerproof.reports.sources import Piece, Source

_SCOPE_FIELDS = [
    ("run", pa.string()),
    ("target", pa.string()),
    ("case", pa.string()),
    ("example", pa.int64()),
]

FACTS = pa.schema(
    [
        *_SCOPE_FIELDS,
        ("fact", pa.string()),
        ("queue", pa.string()),
        ("conn", pa.int64()),
        ("subscription", pa.string()),
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
"""What the events amount to (:data:`brokerproof.harness.trace.facts.Fact`).
``flag``: selective of ``subscribed``, noticed of ``unsubscribed``.
``what``: text of an ``overrun``."""

FOUND = pa.schema(
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
"""Irregularities; besides, rows of kind ``first`` and ``missing`` that are judged in a later step,
with producer and number as order counts them."""

ROWS_AT_ONCE = 10_000


def read_again(spark: SparkSession, source: Source, again: Wanted) -> DataFrame:
    """The events that are wanted (:data:`brokerproof.reports.judging.event_filter.EVENTS`)."""
    open_piece = source.open

    def read(piece: Piece) -> Iterator[pa.RecordBatch]:
        choice = Choice(again, piece["place"])
        for batch in open_piece(piece, _COLUMNS):
            chosen = choice.of(batch)
            if chosen is not None:
                yield chosen

    return source.each(spark, read, spark_schema(EVENTS))


_COLUMNS = (*NEEDED, "seq", "body_size")


def overruns_in_parts(
    spark: SparkSession, source: Source, ground: Expectations, again: Wanted
) -> DataFrame:
    """The windows that were overrun in parts of which it is known how things stood when they began
    (:data:`FOUND`)."""
    open_piece, shut = source.open, again.shut

    def read(piece: Piece) -> Iterator[pa.RecordBatch]:
        known = shut[piece["place"]]
        choice = Choice(Wanted(), piece["place"], known)
        readings: dict[Line, StompFactReader] = {}
        for batch in open_piece(piece, _COLUMNS):
            chosen = choice.of(batch)
            if chosen is not None:
                yield from _batches(_overruns(chosen, readings, known, ground), FOUND)

    return source.each(spark, read, spark_schema(FOUND), shut)


def _overruns(
    batch: pa.RecordBatch,
    readings: dict[Line, StompFactReader],
    known: Mapping[Line, Shut],
    ground: Expectations,
) -> Iterator[dict[str, Any]]:
    for row in batch.to_pylist():
        line = (*_scope(row), row["conn"])
        if line not in readings:
            readings[line] = resumed(row["conn"], ground, known[line])
        for fact in readings[line].read(_row(row)):
            if isinstance(fact, Overrun):
                named = (fact.queue, fact.conn, fact.subscription)
                wrong = Anomaly("overrun", *named, str(fact), (fact.when,))
                yield _irregular(_scope(row), wrong)


def resumed(conn: int, ground: Expectations, known: Shut) -> StompFactReader:
    """A reading that goes on where a part begins. What it says of messages that came before is not
    to be believed."""
    reading = StompFactReader(conn, ground.windows, ground.window)
    for name, about in known.asked.items():
        held = {
            token: Delivery(Key(-1, 0), (0, 0), marked=False, size=size)
            for token, size in known.held.get(name, {}).items()
        }
        octets = sum(each.size for each in held.values())
        reading.subscriptions[name] = Subscription(
            name, about.queue, about.mode, about.window, about.unit, held=held, octets=octets
        )
    return reading


def amount(events: DataFrame, ground: Expectations, again: Wanted) -> DataFrame:
    """What the events amount to, connection by connection (:data:`FACTS`), of the groups that are
    wanted."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _batches(facts_of(batches, ground, again), FACTS)

    line = (*SCOPE, "conn")
    together = events.repartition(*line).sortWithinPartitions(*line, "place", "row")
    return together.mapInArrow(read, spark_schema(FACTS))


def facts_of(
    batches: Iterator[pa.RecordBatch], ground: Expectations, again: Wanted
) -> Iterator[dict[str, Any]]:
    """What events that are in order (:data:`brokerproof.reports.judging.event_filter.EVENTS`)
    amount to, as rows of :data:`FACTS`."""
    for (*scope, conn), rows in groupby(
        _rows(batches), key=lambda row: (*_scope(row), row["conn"])
    ):
        for fact in _read(ConnectionReader(conn, ground), rows, scope, again):
            yield told(scope, fact)


def _read(
    reading: ConnectionReader, rows: Iterator[dict[str, Any]], scope: Sequence[Any], again: Wanted
) -> Iterator[Fact]:
    """The facts of one connection. Of what it sent and got only what is wanted: the rest was not
    read elsewhere. Windows are judged where all of the connection was read."""
    named: dict[str, str] = {}
    unclear = again.everything or (*scope, reading.conn) in again.unclear

    def matters(fact: Fact) -> bool:
        if isinstance(fact, Overrun):
            return unclear
        if again.everything or not isinstance(fact, (Sent, Delivered)):
            return True
        # The queue has the name that the subscription gave it, and may have another one in its
        # messages.
        names = {fact.queue, named.get(fact.queue, fact.queue)}
        producer, number = (fact.key.producer, fact.key.number) if fact.key.stamped else (-1, -1)
        return not fact.key.stamped or any(
            again.has((*scope, name, producer), number) for name in names
        )

    def every() -> Iterator[Fact]:
        queues: dict[str, str] = {}
        for row in rows:
            entered = _row(row)
            headers = entered.headers
            if row["command"] == "SUBSCRIBE":
                queues[headers.get("id", "")] = headers.get("destination", "")
            elif (
                row["command"] == "MESSAGE"
                and (queue := queues.get(headers.get("subscription", ""))) is not None
            ):
                named[queue] = headers.get("destination", queue)
            yield from reading.read(entered)
        yield from reading.end()

    yield from filter(matters, every())


def _row(row: Mapping[str, Any]) -> Row:
    headers = {each["name"]: each["value"] for each in reversed(row["headers"] or ())}
    key = Key(row["producer"], row["number"]) if row["number"] >= 0 else None
    said = row["command"] or "", headers, key, row["size"] or 0
    return Row((row["at_ns"], row["seq"]), row["kind"], *said, row["protocol"] or "")


def told(scope: Sequence[Any], fact: Fact) -> dict[str, Any]:
    """A fact as a row of :data:`FACTS`."""
    row: dict[str, Any] = dict.fromkeys(FACTS.names) | dict(zip(SCOPE, scope, strict=True))
    row |= {"fact": type(fact).__name__.lower(), "conn": fact.conn}
    if isinstance(fact, UnreadableConnection):
        return row
    row |= {"queue": fact.queue, "at": fact.when[0], "seq": fact.when[1]}
    match fact:
        case Sent():
            row |= {
                "producer": fact.key.producer,
                "number": fact.key.number,
                "anycast": fact.anycast,
            }
            row |= {
                "confirmed": fact.confirmed,
                "withdrawn": fact.withdrawn,
                "strange": fact.strange,
            }
            row |= {"channel": fact.channel, "routed": fact.routed}
        case Delivered():
            row |= {
                "producer": fact.key.producer,
                "number": fact.key.number,
                "anycast": fact.anycast,
            }
            row |= {"subscription": fact.subscription, "marked": fact.marked, "end": fact.end.value}
            row |= dict(zip(("ended_at", "ended_seq"), fact.ended or (None, None), strict=True))
        case Subscribed():
            row |= {"subscription": fact.subscription, "flag": fact.selective}
        case Unsubscribed():
            row |= {"subscription": fact.subscription, "flag": fact.noticed}
        case Overrun():
            row |= {"subscription": fact.subscription, "what": str(fact)}
    return row


def overruns(facts: DataFrame) -> DataFrame:
    """The windows that were overrun, as irregularities."""
    witness = F.array(F.struct(F.col("at").alias("at_ns"), "seq"))
    return facts.where(F.col("fact") == "overrun").select(
        *SCOPE,
        F.lit("overrun").alias("kind"),
        "queue",
        "conn",
        "subscription",
        "what",
        F.lit(False).alias("uncertain"),
        witness.alias("witness"),
        "producer",
        "number",
        "strange",
    )


def overrun_of(fact: Mapping[str, Any]) -> dict[str, Any]:
    """One of them, as a row of :data:`FOUND`."""
    named = (fact["queue"], fact["conn"], fact["subscription"])
    wrong = Anomaly("overrun", *named, fact["what"], ((fact["at"], fact["seq"]),))
    return _irregular(_scope(fact), wrong)


def by_message(facts: DataFrame, merged: DataFrame) -> DataFrame:
    """What is wrong with single messages, and what the later steps need of them (:data:`FOUND`)."""
    fact = F.col("fact")
    left = facts.where(fact == "unsubscribed").select(
        *SCOPE,
        "conn",
        "subscription",
        F.struct("at", "seq").alias("went"),
        F.col("flag").alias("noticed"),
        "queue",
    )
    # The fields of a struct compare in order: the first to go is the least.
    departed = (
        left.where(~F.col("noticed")).groupBy(*SCOPE, "queue").agg(F.min("went").alias("departed"))
    )
    selective = (
        facts.where(fact == "subscribed")
        .groupBy(*SCOPE, "queue")
        .agg(F.max("flag").alias("selective"))
    )
    sent_to = (
        merged.where((F.col("what") == "touch") & (F.col("producer") > -2))
        .select(*SCOPE, "queue")
        .distinct()
    )
    complete = merged.where(F.col("what") == "scope").select(
        *SCOPE, F.col("fine").alias("complete")
    )
    messages = (
        facts.where(fact.isin("sent", "delivered"))
        .join(
            left.select(*SCOPE, "conn", "subscription", "went"),
            [*SCOPE, "conn", "subscription"],
            "left",
        )
        .join(departed, [*SCOPE, "queue"], "left")
        .join(selective, [*SCOPE, "queue"], "left")
        .join(sent_to.withColumn("sent_to", F.lit(True)), [*SCOPE, "queue"], "left")
        .join(complete, list(SCOPE), "left")
    )
    # A stamp tells a message from others on one queue, a body everywhere.
    messages = messages.withColumn(
        "stamped_for", F.when(F.col("producer") >= 0, F.col("queue")).otherwise("")
    )
    key = (*SCOPE, "stamped_for", "producer", "number")

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _batches(messages_of(_rows(batches)), FOUND)

    together = messages.repartition(*key).sortWithinPartitions(*key, "at", "seq")
    return together.mapInArrow(judge, spark_schema(FOUND))


def messages_of(facts: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """What is wrong with single messages, as rows of :data:`FOUND`, from facts about them with what
    :func:`by_message` joins, in order."""
    for (*scope, _, producer, number), some in groupby(
        facts, key=lambda row: (*_scope(row), row["stamped_for"], row["producer"], row["number"])
    ):
        rows = list(some)
        key = Key(producer, number)
        sends = [_sent(row, key) for row in rows if row["fact"] == "sent"]
        gots = [_got(row, key) for row in rows if row["fact"] == "delivered"]
        about = _about(rows)
        for wrong in recording.of_message(key, sends, gots, about):
            yield _irregular(scope, wrong)
        if len(sends) != 1:
            continue
        (sent,) = sends
        place = {"producer": producer_of(sent), "number": number_of(sent)}
        if not gots:
            if recording.could_be_lost(sent, about):
                wrong = recording.missing(key, sent, about)
                yield {**_irregular(scope, wrong), **place, "kind": "missing"}
            continue
        for got, counts in recording.first_deliveries(sent, gots, about):
            found = Anomaly("first", got.queue, got.conn, got.subscription, str(key), (got.when,))
            yield {**_irregular(scope, found), **place, "strange": not counts}


def _about(rows: Sequence[Mapping[str, Any]]) -> MessageContext:
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


def _sent(row: Mapping[str, Any], key: Key) -> Sent:
    when = (row["at"], row["seq"])
    flags = (row["confirmed"], row["withdrawn"], row["anycast"], row["strange"])
    return Sent(key, row["queue"], row["conn"], when, *flags, row["channel"], row["routed"])


def _got(row: Mapping[str, Any], key: Key) -> Delivered:
    when = (row["at"], row["seq"])
    ended = None if row["ended_at"] is None else (row["ended_at"], row["ended_seq"])
    named = (row["queue"], row["conn"], row["subscription"])
    return Delivered(key, *named, when, row["marked"], End(row["end"]), ended, row["anycast"])


def _irregular(scope: Sequence[Any], found: Anomaly) -> dict[str, Any]:
    row = dict(zip(SCOPE, scope, strict=True))
    row |= {
        "kind": found.kind,
        "queue": found.queue,
        "conn": found.conn,
        "subscription": found.subscription,
    }
    row |= {"what": found.what, "uncertain": found.uncertain}
    return {**row, "witness": [{"at_ns": at, "seq": seq} for at, seq in found.witness]}


def lost(judged: DataFrame) -> DataFrame:
    """Of what never came, what a later message of the same producer overtook."""
    firsts = judged.where(F.col("kind") == "first")
    came = firsts.groupBy(*SCOPE, "queue", "producer").agg(F.max("number").alias("came"))
    missing = judged.where(F.col("kind") == "missing").join(came, [*SCOPE, "queue", "producer"])
    return (
        missing.where(F.col("number") < F.col("came"))
        .withColumn("kind", F.lit("lost"))
        .select(*judged.columns)
    )


def disordered(judged: DataFrame) -> DataFrame:
    """First deliveries that came behind later ones of their producer."""
    line = (*SCOPE, "conn", "subscription", "producer")

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _batches(lines_of(_rows(batches)), FOUND)

    counting = judged.where((F.col("kind") == "first") & ~F.col("strange"))
    together = counting.repartition(*line).sortWithinPartitions(*line, "witness")
    return together.mapInArrow(judge, spark_schema(FOUND))


def lines_of(firsts: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Which of these first deliveries, in order, came behind later ones of their producer."""

    def of(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return (*_scope(row), row["conn"], row["subscription"], row["producer"])

    for (*scope, _, _, _), rows in groupby(firsts, key=of):
        line = recording.Line()
        for row in rows:
            when = (row["witness"][0]["at_ns"], row["witness"][0]["seq"])
            found = line.note(
                row["number"], row["what"], row["queue"], row["conn"], row["subscription"], when
            )
            if found is not None:
                yield _irregular(scope, found)


def _scope(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["run"], row["target"], row["case"], row["example"]


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def _batches(rows: Iterator[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while some := list(islice(rows, ROWS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist(some, schema=schema)
