"""Fills the templates: the index, and one page per case."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from harness.words import NS_PER_MS
from reports import mutants
from reports.counterexamples import kept, replay
from reports.excerpts import Excerpt
from reports.html.axis import axis, gauge
from reports.html.log import Line, between, lines
from reports.html.marks import Marks, ending, marks
from reports.html.times import duration, quantity
from reports.model import LETTERS, MEANINGS, VERDICTS, CaseRow, Model
from reports.past import WORDS
from reports.requirements import Requirements, Words
from reports.runs import Run


@dataclass(frozen=True)
class Judgement:
    """One finding on a case's page."""

    words: Words
    verdict: str
    seen: str
    detail: str
    uncertain: str


@dataclass(frozen=True)
class Gauge:
    """A measured quantity on a case's page."""

    label: str
    value: str
    expected: str
    margin: str
    distance: str
    stands: str
    drawing: Markup


@dataclass(frozen=True)
class Example:
    """One example on a case's page."""

    title: str
    detail: str
    drawing: Markup
    marks: Marks
    lines: list[Line]
    endings: list[str]
    events: int


class Pages:
    """The templates, loaded once."""

    def __init__(self, requirements: Requirements) -> None:
        self._requirements = requirements
        self._templates = Environment(
            loader=PackageLoader("reports.html", "."),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals.update(
            letters=LETTERS, meanings=MEANINGS, verdicts=VERDICTS, style=self._style(), went=WORDS
        )
        self._templates.filters.update(took=took, paragraphs=paragraphs, minute=minute, breakable=breakable)

    def _style(self) -> Markup:
        loader = self._templates.loader
        assert loader is not None
        return Markup(loader.get_source(self._templates, "style.css")[0])

    def index(self, model: Model) -> str:
        """The index page."""
        return self._templates.get_template("index.html.j2").render(
            model=model,
            facts=[facts(run) for run in model.runs],
            mutants=[matrix for run in model.runs if (matrix := mutants.read(run.folder)) is not None],
        )

    def case(self, run: Run, case: CaseRow, findings: Sequence[Mapping[str, Any]], parts: Sequence[Excerpt]) -> str:
        """The page of one case."""
        return self._templates.get_template("case.html.j2").render(
            case=case,
            run=run,
            target=next((each for each in run.targets if each["name"] == case.target), {}),
            judgements=[self._judgement(each) for each in findings],
            gauges=gauges(case),
            examples=[example(each) for each in parts if each.rows],
            examples_total=parts[0].examples if parts else 0,
            again=_again(run, case),
            kept=kept(run, case),
            replay=replay(case),
        )

    def _judgement(self, finding: Mapping[str, Any]) -> Judgement:
        return Judgement(
            words=self._requirements.find(finding["requirement"]),
            verdict=finding["verdict"],
            seen=finding["seen"].replace("_", " ").lower(),
            detail=finding["detail"],
            uncertain=finding["uncertain"] or "",
        )


def took(duration_s: float) -> str:
    """How long a case took, to the millisecond."""
    return duration(round(duration_s * 1000) * NS_PER_MS)


def breakable(name: str) -> Markup:
    """A case's name that may be broken between its words, and is then still found and copied as it is."""
    return Markup(re.sub(r"([_.])(?=\w)", r"\1<wbr>", str(escape(name))))


def minute(instant: str) -> str:
    """When a run began, to the minute: ``2026-11-21T12:00:00+00:00`` as ``2026-11-21 12:00``."""
    return instant[:16].replace("T", " ")


def paragraphs(doc: str) -> list[str]:
    """A docstring without the line ends that were there for the editor."""
    return [" ".join(each.split()) for each in re.split(r"\n\s*\n", doc) if each.strip()]


def facts(run: Run) -> dict[str, str]:
    """What the index says of a run, by label; what the header does not say is left out."""
    head, host = run.header, run.header.get("host")
    host = host if isinstance(host, dict) else {}
    command = head.get("command")
    canary = host.get("canary_p99_ns")
    found = {
        "run": run.name,
        "started": str(head.get("started", "")),
        "ended": str((run.footer or {}).get("finished", "")) or "cut off",
        "brokerproof": str(head.get("brokerproof", "")),
        "command": " ".join(map(str, command)) if isinstance(command, list) else "",
        "seed": str(head.get("seed", "")),
        "effort": str(head.get("effort", "")),
        "host": " · ".join(
            part
            for part in (
                str(host.get("platform", "")),
                f"Python {host['python']}" if "python" in host else "",
                f"{host['cores']} cores" if "cores" in host else "",
                f"canary p99 {duration(canary)}" if isinstance(canary, int) else "",
            )
            if part
        ),
        "exit code": str((run.footer or {}).get("exit_code", "")),
    }
    return {label: text for label, text in found.items() if text}


def gauges(case: CaseRow) -> list[Gauge]:
    """The measured quantities of a case with the intervals they were held against."""
    measured, expected = json.loads(case.measured), json.loads(case.expected)
    found = []
    for label, each in measured.items():
        value, want = _whole(each, "value"), expected.get(label)
        if value is None:
            continue
        lo, hi, margin = _whole(want, "lo"), _whole(want, "hi"), _whole(want, "margin") or 0
        unit = str(each.get("unit", ""))
        room = [] if lo is None else [value - lo]
        room += [] if hi is None else [hi - value]
        nearest = min(room, default=None)
        found.append(
            Gauge(
                label=label,
                value=quantity(value, unit),
                expected=between(lo, hi, unit),
                margin=f"± {quantity(margin, unit)}" if margin else "",
                distance=_distance(nearest, unit),
                stands="in" if nearest is None or nearest >= 0 else "margin" if nearest >= -margin else "out",
                drawing=gauge(value, lo, hi, margin),
            )
        )
    return found


def _whole(values: object, name: str) -> int | None:
    """The whole number of that name, if there is one: results are written by cases, and a page must not depend on it."""
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _distance(nearest: int | None, unit: str) -> str:
    if nearest is None:
        return ""
    if nearest == 0:
        return "on the bound"
    return f"{quantity(abs(nearest), unit)} {'inside' if nearest > 0 else 'outside'}"


def example(excerpt: Excerpt) -> Example:
    """One example, drawn and written out."""
    start = next((row for row in excerpt.rows if row["kind"] == "ExampleStarted"), None)
    found = marks(excerpt)
    return Example(
        title="" if start is None else f"Example {start['example']}",
        detail="" if start is None else start["detail"] or "",
        drawing=axis(found),
        marks=found,
        lines=list(lines(excerpt)),
        endings=endings(excerpt, found.zero),
        events=excerpt.events,
    )


def endings(excerpt: Excerpt, zero: int) -> list[str]:
    """How each connection ended, one sentence each."""
    opened: dict[int, int] = {}
    last: dict[int, tuple[str, int]] = {}
    found: dict[int, str] = {}
    for row in excerpt.rows:
        conn, kind, at = row["conn"], row["kind"], row["at_ns"]
        if conn is None or row["vantage"] == "BROKER":
            continue
        if kind == "ConnectionOpened":
            opened[conn] = at
        elif kind in ("ConnectionClosed", "ConnectionAbandoned"):
            said = last.get(conn)
            after = (
                f", {duration(at - said[1])} after {said[0]}"
                if said and at > said[1]
                else f", right after {said[0]}"
                if said
                else ""
            )
            found.setdefault(conn, f"Connection {conn} was {ending(kind, row['how'])} at {duration(at - zero)}{after}.")
        elif kind == "FrameReceived":
            last[conn] = (f"it sent {row['command']}", at)
        elif kind == "FrameSent":
            last[conn] = (f"the harness sent {row['command']}", at)
    for conn in opened:
        found.setdefault(conn, f"Connection {conn} was still open when the trace ended.")
    return [found[conn] for conn in sorted(found)]


def _again(run: Run, case: CaseRow) -> str:
    """The command that judges this case again with the same examples."""
    function = case.case.partition("[")[0].rpartition(".")[2]
    header = run.header
    chosen = ("--effort", str(header.get("effort", "normal")), "--seed", str(header.get("seed", 0)))
    return shlex.join(["brokerproof", "run", "--target", case.target, "--case", function, *chosen])
