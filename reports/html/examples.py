"""One example of a case: its drawings, its log, and how each of its connections ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from brokerproof.reports.curves.compute import Curve
from brokerproof.reports.excerpts import Excerpt
from brokerproof.reports.html.axis import axis
from brokerproof.reports.html.log import Line, lines, rows
from brokerproof.reports.html.marks import Marks, ending, marks
from brokerproof.reports.html.plots import in_words, plot
from brokerproof.reports.html.sequence import sequence
from brokerproof.reports.html.times import duration


@dataclass(frozen=True)
class Example:
    """One example on a case's page; ``drawing`` is empty where all of it has one instant of virtual
    time."""

    title: str
    detail: str
    drawing: Markup
    sequence: Markup
    plots: list[tuple[Markup, str]]
    marks: Marks
    lines: list[Line]
    endings: list[str]
    events: int

    @property
    def rows(self) -> Markup:
        """The lines as rows of the log's table."""
        return rows(self.lines)


def example(excerpt: Excerpt, curves: str | None = None) -> Example:
    """One example, drawn and written out; ``curves`` is what
    :mod:`brokerproof.reports.curves.sample` found in it."""
    start = next((row for row in excerpt.rows if row["kind"] == "ExampleStarted"), None)
    marked = marks(excerpt)
    return Example(
        title="" if start is None else f"Example {start['example']}",
        detail="" if start is None else start["detail"] or "",
        drawing=axis(marked) if marked.last > marked.first else Markup(""),
        sequence=sequence(excerpt, marked),
        plots=[
            (plot(curve, marked.zero), in_words(curve, marked.zero)) for curve in _curves(curves)
        ],
        marks=marked,
        lines=list(lines(excerpt)),
        endings=endings(excerpt, marked.zero),
        events=excerpt.events,
    )


def _curves(text: str | None) -> list[Curve]:
    drawn: list[Mapping[str, Any]] = json.loads(text) if text else []
    return [
        Curve(
            facts["title"],
            facts["unit"],
            [(at, value) for at, value in facts["points"]],
            [(level, name) for level, name in facts["bounds"]],
        )
        for facts in drawn
    ]


def endings(excerpt: Excerpt, zero: int) -> list[str]:
    """Return one sentence per connection on how it ended."""
    opened: dict[int, int] = {}
    last: dict[int, tuple[str, int]] = {}
    sentences: dict[int, str] = {}
    for row in excerpt.rows:
        conn, kind, at = row["conn"], row["kind"], row["at_ns"]
        if conn is None or row["vantage"] == "BROKER":
            continue
        if kind == "ConnectionOpened":
            opened[conn] = at
        elif kind in ("ConnectionClosed", "ConnectionAbandoned"):
            previous = last.get(conn)
            after = (
                f", {duration(at - previous[1])} after {previous[0]}"
                if previous and at > previous[1]
                else f", right after {previous[0]}"
                if previous
                else ""
            )
            sentences.setdefault(
                conn,
                f"Connection {conn} was {ending(kind, row['how'])} at"
                f" {duration(at - zero)}{after}.",
            )
        elif kind == "FrameReceived":
            last[conn] = (f"it sent {row['command']}", at)
        elif kind == "FrameSent":
            last[conn] = (f"the harness sent {row['command']}", at)
    for conn in opened:
        sentences.setdefault(conn, f"Connection {conn} was still open when the trace ended.")
    return [sentences[conn] for conn in sorted(sentences)]
