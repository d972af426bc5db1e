"""Judges the recording of each case again from its traffic alone, and compares the result with the
case's own verdict."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from brokerproof.harness.oracles import connection_lifetimes, recorded_anomalies
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.harness.trace.events import Event
from brokerproof.reports.judging import amqp
from brokerproof.reports.judging.requirement_map import statement
from brokerproof.reports.sources.recorded_cases import MOST_EVENTS, RecordedCase

_KINDS = frozenset(
    {
        "FrameSent",
        "FrameReceived",
        "HeartBeatSent",
        "HeartBeatReceived",
        "OctetsSent",
        "OctetsRefused",
        "ConnectionOpened",
        "ConnectionClosed",
        "ConnectionAbandoned",
    }
)


AGAIN = pa.schema(
    [
        ("run", pa.string()),
        ("target", pa.string()),
        ("case", pa.string()),
        ("part", pa.int64()),
        ("example", pa.int64()),
        ("kind", pa.string()),
        ("requirement", pa.string()),
        ("conn", pa.int64()),
        ("queue", pa.string()),
        ("what", pa.string()),
        ("uncertain", pa.bool_()),
        ("at_ns", pa.int64()),
        ("position", pa.int64()),
        ("verdict", pa.string()),
        ("contradicts", pa.bool_()),
    ]
)
"""A row for each irregularity. ``part`` counts the recorded examples from 1; ``example`` is the
case's own number of the example (null in a case without examples); ``at_ns`` and ``position``
belong to the last event that shows it; ``verdict`` is the case's verdict when it ran."""


def anomalies(case: RecordedCase, ground: Expectations) -> Iterator[dict[str, Any]]:
    """Yield every irregularity in every example of a case: ``part, example, kind, requirement,
    conn, queue, what, uncertain, at_ns, position``; the last two belong to the last event that
    shows it.

    The oracles read a whole example at once, but only the beginning of a load."""
    spoken = [
        kind in _KINDS and vantage != "BROKER"
        for kind, vantage in zip(case.column("kind"), case.column("vantage"), strict=True)
    ]
    places = np.flatnonzero(np.array(spoken) & (case.numbers < MOST_EVENTS))
    parts = case.parts[places]
    for own in np.split(places, np.flatnonzero(np.diff(parts)) + 1):
        if len(own):
            part = int(case.parts[own[0]])
            for anomaly in _judged(case, own.tolist(), ground):
                yield {"part": part, "example": _example(case, part), **anomaly}


def _example(case: RecordedCase, part: int) -> int | None:
    place = int(np.searchsorted(case.parts, part))
    number: int | None = case.column("example")[place] if part else None
    return number


def _contents(case: RecordedCase, places: Sequence[int]) -> tuple[bool, set[int], set[int]]:
    """Return whether a MESSAGE was delivered, and which connections had heartbeats or sent AMQP
    1.0."""
    # Most examples contain nothing that an oracle judges. Every example is scanned, so the scan
    # must be cheap. An event object is built only for an oracle that reads it.
    kinds, commands = case.column("kind"), case.column("command")
    protocols, conns = case.column("protocol"), case.column("conn")
    delivered = False
    beating: set[int] = set()
    talking: set[int] = set()
    for place in places:
        kind, command, conn = kinds[place], commands[place], conns[place]
        if conn is None:
            continue
        if kind == "FrameReceived":
            delivered = delivered or command == "MESSAGE"
            if command == "CONNECTED" and _beating(case.column("headers")[place]):
                beating.add(conn)
        elif kind == "FrameSent" and protocols[place] == "AMQP":
            talking.add(conn)
    return delivered, beating, talking


def _judged(
    case: RecordedCase, places: Sequence[int], ground: Expectations
) -> Iterator[dict[str, Any]]:
    conns = case.column("conn")
    delivered, beating, amqp_conns = _contents(case, places)
    talking: dict[int, list[Event]] = {conn: [] for conn in amqp_conns}
    if not (delivered or beating or talking):
        return
    if not delivered:
        places = [place for place in places if conns[place] in beating or conns[place] in talking]
    events = case.events(places)
    wrong = recorded_anomalies.find_anomalies(events, ground) if delivered else []
    if beating:
        lives = connection_lifetimes.lifetimes(event for event in events if event.conn in beating)
        wrong += [
            anomaly
            for life in lives.values()
            for anomaly in connection_lifetimes.find_anomalies(life, ground)
        ]
    for event in events if talking else ():
        if event.conn in talking:
            talking[event.conn].append(event)
    for conn in sorted(talking):
        for anomaly, requirement in amqp.connection_anomalies(talking[conn], conn):
            yield {
                "kind": anomaly.kind,
                "requirement": requirement,
                "conn": conn,
                "queue": "",
                "what": anomaly.what,
                "uncertain": anomaly.uncertain,
                "at_ns": anomaly.witness[0][0],
                "position": None,
            }
    for anomaly in wrong:
        at, place = anomaly.witness[-1]
        known = anomaly.kind in recorded_anomalies.KINDS
        yield {
            "kind": anomaly.kind,
            "requirement": statement(ground.name, anomaly.kind),
            "conn": anomaly.conn,
            "queue": anomaly.queue,
            "what": anomaly.what,
            "uncertain": anomaly.uncertain,
            "at_ns": at,
            "position": int(case.numbers[places[place]]) if known else None,
        }


def _beating(headers: Sequence[tuple[str, str]]) -> bool:
    """True if a CONNECTED frame promises or requests heartbeats. Otherwise, no lifetime can be
    judged."""
    return any(name == "heart-beat" and value != "0,0" for name, value in headers)


def beside_verdicts(
    found: Sequence[Mapping[str, Any]], verdicts: Mapping[tuple[str, str, str], str]
) -> list[dict[str, Any]]:
    """Return the irregularities with ``verdict``, the case's result when it ran, and
    ``contradicts``, which is true if the case reported no violation but the recording certainly
    shows one. Contradictions come first."""
    rows = []
    for anomaly in found:
        verdict = verdicts.get((anomaly["run"], anomaly["target"], anomaly["case"]))
        sure = not anomaly["uncertain"] and anomaly["requirement"] != ""
        contradicts = verdict in ("PASS", "NOTE") and sure
        rows.append({**anomaly, "verdict": verdict, "contradicts": contradicts})
    scope = ("run", "target", "case", "part", "kind")
    return sorted(
        rows,
        key=lambda row: (
            not row["contradicts"],
            row["uncertain"],
            *(row[name] for name in scope),
            -1 if row["position"] is None else row["position"],
        ),
    )
