"""The wire log of an example: one line per event, what repeats itself folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from brokerproof.reports.excerpts import BODY_OCTETS, HEADERS, Excerpt
from brokerproof.reports.html.marks import ending
from brokerproof.reports.html.steps import steps
from brokerproof.reports.html.svg import safe
from brokerproof.reports.html.times import clock, duration, quantity


@dataclass
class Line:
    """One line. ``way`` is ``sent``, ``received``, ``end`` or empty; ``kind`` is a style class."""

    at: str
    conn: str
    way: str
    kind: str
    title: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: str = ""
    note: str = ""
    inside: list[str] = field(default_factory=list)
    """The contents of a folded line, one line of text each."""


def lines(excerpt: Excerpt) -> Iterator[Line]:
    """Every shown event of ``excerpt`` as a line, and a line wherever events were left out."""
    zero = min(row["at_ns"] for row in excerpt.rows)
    before = None
    for group in steps(excerpt.rows):
        first = group[0]
        if before is not None and first["index"] > before + 1:
            missing = first["index"] - before - 1
            yield Line("", "", "", "left-out", f"{missing} events not shown")
        before = group[-1]["index"]
        if len(group) > 1 and first["kind"] in ("FrameSent", "FrameReceived"):
            yield from _alike(group, zero)
        else:
            yield _line(first, zero) if len(group) == 1 else _together(group, zero)


def rows(of: Iterable[Line]) -> Markup:
    """The lines as rows of a table, each on a line of its own.

    Most of a page is its log, and a report has millions of these: a template takes several times as
    long.
    """
    return Markup("".join(map(_row, of)))


_ICONS = {
    way: f'<span role="img" aria-label="{words}">{sign}</span>'
    for way, words, sign in (
        ("sent", "sent", "→"),
        ("received", "received", "←"),
        ("end", "ended", "✕"),
    )
}


def _row(line: Line) -> str:
    if line.kind == "left-out":
        return f'<tr class="left-out"><td colspan="4">… {safe(line.title)} …</td></tr>\n'
    content = (
        f'<span class="title">{safe(line.title)}</span> <span class="soft">{safe(line.note)}</span>'
    )
    if line.inside:
        inside = "\n".join(map(safe, line.inside))
        content = f"<details><summary>{content}</summary><pre>{inside}</pre></details>"
    if line.headers:
        headers = "".join(f"<b>{safe(name)}:</b>{safe(value)}  " for name, value in line.headers)
        content += f'<div class="headers">{headers}</div>'
    if line.body:
        content += f'<span class="body">{safe(line.body)}</span>'
    where = f'<td class="at">{safe(line.at)}</td><td class="conn">{safe(line.conn)}</td>'
    way = f'<td class="way">{_ICONS.get(line.way, "")}</td>'
    return f'<tr class="{safe(line.kind)} {safe(line.way)}">{where}{way}<td>{content}</td></tr>\n'


def _alike(group: list[dict[str, Any]], zero: int) -> Iterator[Line]:
    """Frames of one command in a row: the first and the last as they are, the others in one
    line."""
    first, *others, last = group
    yield _line(first, zero)
    sizes = [row["size"] or 0 for row in others]
    least, most = quantity(min(sizes), "octets"), quantity(max(sizes), "octets")
    title = f"{len(others)} more {first['command']}"
    note = (
        f"until {clock(others[-1]['at_ns'] - zero)},"
        f" {least if least == most else f'{least} to {most}'} each"
    )
    conn = "" if first["conn"] is None else str(first["conn"])
    inside = [_in_short(row, zero) for row in others]
    yield Line(
        clock(others[0]["at_ns"] - zero),
        conn,
        _way(first["kind"]),
        "folded",
        title,
        note=note,
        inside=inside,
    )
    yield _line(last, zero)


def _in_short(row: dict[str, Any], zero: int) -> str:
    line = _line(row, zero)
    headers = " ".join(f"{name}:{value}" for name, value in line.headers)
    return "  ".join(text for text in (line.at, line.note, headers, line.body) if text)


def _together(group: list[dict[str, Any]], zero: int) -> Line:
    if group[0]["kind"] != "IntervalExpected":
        return _beats(group, zero)
    named = [row["requirement"] for row in group if row["requirement"]]
    return _line({**group[0], "requirement": ", ".join(named)}, zero)


def _beats(group: list[dict[str, Any]], zero: int) -> Line:
    line = _line(group[0], zero)
    instants = [row["at_ns"] for row in group]
    apart = [later - earlier for earlier, later in pairwise(instants)]
    line.title = f"{len(group)} heartbeats"
    least, most = duration(min(apart)), duration(max(apart))
    line.note = (
        f"until {clock(instants[-1] - zero)}, {least if least == most else f'{least} to {most}'}"
        " apart"
    )
    return line


def _line(row: dict[str, Any], zero: int) -> Line:
    at = clock(row["at_ns"] - zero)
    conn = "" if row["conn"] is None else str(row["conn"])
    kind = row["kind"]
    if kind in ("FrameSent", "FrameReceived"):
        return _frame(row, at, conn)
    if kind in ("HeartBeatSent", "HeartBeatReceived"):
        return Line(at, conn, _way(kind), "beat", "heartbeat")
    if kind in ("OctetsSent", "OctetsRefused"):
        size = row["data_size"] or 0
        note = row["detail"] or f"{quantity(size, 'octets')}, not a well-formed frame"
        return Line(
            at, conn, _way(kind), "octets", "bytes", body=shown(row["data"] or "", size), note=note
        )
    way, style, title, note = _remark(kind, row, zero)
    return Line(at, conn, way, style, title, note=note)


def _frame(row: dict[str, Any], at: str, conn: str) -> Line:
    headers = [(header["name"], header["value"]) for header in row["headers"] or ()]
    if len(headers) == HEADERS:
        headers.append(("…", "further headers are not shown"))
    size = row["body_size"] or 0
    note = f"{quantity(row['size'], 'octets')}" if row["size"] else ""
    body = shown(row["body"] or "", size)
    return Line(at, conn, _way(row["kind"]), "frame", row["command"] or "?", headers, body, note)


def _way(kind: str) -> str:
    return "sent" if kind.endswith("Sent") else "received"


def _remark(kind: str, row: dict[str, Any], zero: int) -> tuple[str, str, str, str]:
    """Return the direction, style, title and note of an event that is no bytes."""
    detail = row["detail"] or ""
    if kind == "ConnectionOpened":
        remote = f" to {row['remote']}" if row["remote"] else ""
        return "", "open", "opened", f"{row['protocol']} on acceptor {row['acceptor']}{remote}"
    if kind in ("ConnectionClosed", "ConnectionAbandoned"):
        style = "end broker" if kind == "ConnectionClosed" else "end harness"
        return "end", style, ending(kind, row["how"]), row["how"]
    if kind == "IntervalExpected":
        upper = "any time later" if row["hi_ns"] is None else clock(row["hi_ns"] - zero)
        note = f"between {clock(row['lo_ns'] - zero)} and {upper}"
        return "", "expects", f"expected: {row['label']}", _with(note, row["requirement"])
    if kind == "Measured":
        note = (
            f"{quantity(row['value'], row['unit'])}; expected"
            f" {between(row['lo'], row['hi'], row['unit'])}"
        )
        return "", "measured", f"measured: {row['label']}", _with(note, row["requirement"])
    if kind == "Judged":
        return (
            "",
            f"judged {row['seen'].lower()}",
            f"{row['requirement']} {row['seen'].replace('_', ' ').lower()}",
            detail,
        )
    if kind == "JitterMeasured":
        return "", "host", "canary", f"woke {duration(row['late_ns'])} late"
    if kind == "Advanced":
        return "", "note", f"let {duration(row['duration_ns'])} pass", ""
    if kind == "Observed":
        return "", "observed", f"the broker took a branch of {row['requirement']}", detail
    if kind == "ExampleStarted":
        return "", "note", f"example {row['example']}", detail
    if kind in ("OctetsSentUnseen", "OctetsReceivedUnseen"):
        way = "sent" if kind == "OctetsSentUnseen" else "received"
        size = quantity(row["size"], "octets") if row["size"] else "bytes"
        return way, "octets", f"{size} missing in the recording", detail
    words = {
        "CaseStarted": "case began",
        "CaseEnded": "case ended",
        "LinkFaulted": "link disturbed",
        "Noted": "note",
    }
    return "", "note", words.get(kind, kind), detail


def _with(note: str, requirement: str | None) -> str:
    return f"{note} ({requirement})" if requirement else note


def between(lo: int | None, hi: int | None, unit: str) -> str:
    """``2 s to 4 s``, ``at least 3 messages``, ``exactly 1 message``."""
    if lo is None and hi is None:
        return "anything"
    if lo == hi:
        return f"exactly {quantity(lo, unit)}"
    if hi is None:
        return f"at least {quantity(lo, unit)}"
    if lo is None:
        return f"at most {quantity(hi, unit)}"
    return f"{quantity(lo, unit)} to {quantity(hi, unit)}"


def shown(text: str, size: int) -> str:
    """Return the beginning of ``size`` bytes, one character a byte: printable ASCII as it is, the
    rest escaped as Python does."""
    beginning = text[:BODY_OCTETS].translate(_AS_TEXT)
    cut = size > BODY_OCTETS
    return f"{beginning} … ({quantity(size, 'octets')})" if cut else beginning


_NAMED = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x5C: "\\\\"}
_AS_TEXT = {
    byte: _NAMED.get(byte, f"\\x{byte:02x}")
    for byte in range(256)
    if not 0x20 <= byte < 0x7F or byte in _NAMED
}
