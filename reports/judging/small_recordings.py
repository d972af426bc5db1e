"""Small recordings, judged in this process without Spark.

For a few thousand events, the queries of :mod:`brokerproof.reports.judging.judge` take many times
longer than the judgement itself. Therefore this process summarises the pieces as Spark's tasks do,
and rereads a suspicious recording completely. The same steps then run over lists
(:class:`brokerproof.reports.judging.executors.InProcess`)."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from brokerproof.harness.oracles.connection_reader import STOMP
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.harness.trace.facts import FAR
from brokerproof.reports.judging import amqp
from brokerproof.reports.judging.capture_gaps import Doubts, Missing, unseen_of
from brokerproof.reports.judging.executors import InProcess, Row
from brokerproof.reports.judging.judge import JUDGED_GROUPS, LifetimeAnomalies
from brokerproof.reports.judging.merge import merged_row
from brokerproof.reports.judging.recheck import QueueContext, anomalies, event_reader
from brokerproof.reports.judging.recheck_plan import RecheckPlan, Scope, scope_of
from brokerproof.reports.judging.requirement_map import statement
from brokerproof.reports.judging.segment_summary import summariser
from brokerproof.reports.judging.summary import (
    CHANNELS,
    CONNECTION,
    CONSUMES,
    DELIVERIES,
    GROUP,
    ORACLE_JUDGED,
    ORDER,
    QUEUE_USE,
    SCOPE,
    SCOPE_PROTOCOLS,
    WINDOWS,
)
from brokerproof.reports.sources import Piece, Source, Work

_EVERYTHING = RecheckPlan(everything=True)


@dataclass(frozen=True)
class SmallJudgement:
    """The anomalies of a small recording.

    The fields are those of :class:`brokerproof.reports.judging.judge.Judgement`, as lists."""

    anomalies: Sequence[Row]
    groups: Mapping[str, tuple[int, int]]
    missing: Sequence[Missing]
    """The gaps of the recording, by reason."""


def find_anomalies(source: Source, ground: Expectations) -> SmallJudgement:
    """Judge a recording whose events fit into this process several times over."""
    merged = _merged(source.collect(summariser(source.open, ground)), whole=source.whole)
    of_kind: dict[str, list[Row]] = defaultdict(list)
    for row in merged:
        of_kind[row["kind"]].append(row)
    rechecked = {kind: sum(row["needs_recheck"] for row in of_kind[kind]) for kind in of_kind}
    suspicious = {kind for kind, number in rechecked.items() if number}

    of_lifetimes = LifetimeAnomalies(ground, source.whole, source.captured)
    found = list(of_lifetimes(iter(of_kind[CONNECTION])))
    unseen = list(unseen_of(of_kind[CONNECTION]))
    if suspicious & {DELIVERIES, ORDER, WINDOWS}:
        asking = (row for kind in (DELIVERIES, ORDER, WINDOWS) for row in of_kind[kind])
        scopes = {scope_of(row) for row in asking if row["needs_recheck"]}
        events = source.collect(_within(scopes, event_reader(source.open, _EVERYTHING)))
        again = anomalies(InProcess(), events, _queue_context(of_kind), ground, _EVERYTHING)
        found += _with_doubts(again, unseen, of_kind[QUEUE_USE], whole=source.whole)
    protocols = {
        (*scope_of(row), row["conn"]): row["subscription"] for row in of_kind[ORACLE_JUDGED]
    }
    stated: list[Row] = [
        {**row, "requirement": statement(ground.name, row["kind"], _protocol(row, protocols))}
        for row in found
    ]
    if suspicious & {ORACLE_JUDGED, CHANNELS}:
        asking = (row for kind in (ORACLE_JUDGED, CHANNELS) for row in of_kind[kind])
        chosen = frozenset((*scope_of(row), row["conn"]) for row in asking if row["needs_recheck"])
        frames = source.collect(amqp.frame_reader(source.open, chosen))
        by, order = amqp.CONNECTION_KEY, ("place", "row")
        stated += InProcess().run(amqp.anomalies_of, frames, amqp.WITH_REQUIREMENT, by, order)
    names = amqp.WITH_REQUIREMENT.names
    return SmallJudgement(
        [{name: row.get(name) for name in names} for row in stated],
        {
            # Connections are judged by their summaries alone.
            kind: (len(rows), 0 if kind == CONNECTION else rechecked[kind])
            for kind, rows in of_kind.items()
            if kind in JUDGED_GROUPS and rows
        },
        _missing(unseen),
    )


def _within(scopes: Container[Scope], read: Work) -> Work:
    """Return ``read`` without the events of other scopes. Those are most of the events in a run."""

    def read_some(piece: Piece) -> Iterator[pa.RecordBatch]:
        for events in read(piece):
            own = zip(*(events.column(name).to_pylist() for name in SCOPE), strict=True)
            yield events.filter(pa.array([scope in scopes for scope in own], pa.bool_()))

    return read_some


def _merged(summaries: Iterable[Row], *, whole: bool) -> list[Row]:
    """Merge the summaries of each group (:data:`brokerproof.reports.judging.merge.MERGED`). Unless
    the recording is ``whole``, unrecorded connections may have sent messages too."""

    def group_of(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in GROUP)

    ordered = sorted(summaries, key=lambda row: (group_of(row), row["place"]))
    merged: list[Row] = []
    for group, rows in groupby(ordered, key=group_of):
        row = merged_row(group, rows)
        incomplete = not whole and row["kind"] == SCOPE_PROTOCOLS
        merged.append({**row, "needs_recheck": row["needs_recheck"] or incomplete})
    return merged


def _queue_context(of_kind: Mapping[str, Sequence[Row]]) -> QueueContext[list[Row]]:
    queues = {
        (*scope_of(row), row["queue"]) for row in of_kind[QUEUE_USE] if row["producer"] > CONSUMES
    }
    return QueueContext(
        [dict(zip((*SCOPE, "queue"), queue, strict=True)) | {"sent_to": True} for queue in queues],
        [
            {name: row[name] for name in SCOPE} | {"complete": not row["needs_recheck"]}
            for row in of_kind[SCOPE_PROTOCOLS]
        ],
    )


def _with_doubts(
    found: Iterable[Row], unseen: Iterable[Row], uses: Iterable[Row], *, whole: bool
) -> list[Row]:
    """Return the anomalies, marked as uncertain where something unseen could explain them
    (:func:`brokerproof.reports.judging.capture_gaps.with_doubts`)."""
    gaps: dict[Any, int] = {}
    anywhere: dict[Any, int] = {}
    of_queue: dict[Any, int] = {}

    def note(instants: dict[Any, int], key: Any, since: int) -> None:
        instants[key] = min(since, instants.get(key, since))

    for row in unseen:
        if row["why"] != FAR:
            note(gaps, (*scope_of(row), row["conn"]), row["since_ns"])
            note(anywhere, scope_of(row), row["since_ns"])
    for row in uses:
        since = gaps.get((*scope_of(row), row["conn"]))
        if since is not None:
            note(of_queue, (*scope_of(row), row["queue"]), since)
    known: Iterator[Row] = (
        {
            **row,
            "anywhere": anywhere.get(scope_of(row)),
            "of_queue": of_queue.get((*scope_of(row), row["queue"])),
        }
        for row in found
    )
    return list(Doubts(whole)(known))


def _protocol(row: Row, protocols: Mapping[tuple[Any, ...], str]) -> str:
    return protocols.get((*scope_of(row), row["conn"]), STOMP)


def _missing(unseen: Sequence[Row]) -> list[Missing]:
    connections = Counter(row["why"] for row in unseen)
    return [
        Missing(
            why,
            connections[why],
            sum(row["octets"] for row in unseen if row["why"] == why),
            min(row["since_ns"] for row in unseen if row["why"] == why),
        )
        for why in sorted(connections)
    ]
