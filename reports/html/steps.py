"""Rows of an excerpt, with what repeats itself put together: neighbours that say the same become
one step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

FOLD_FROM = 4
"""This many heartbeats, or frames of one command, of one connection and direction in a row become
one step."""

Row = dict[str, Any]


def steps(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield every row, alone or with similar neighbours: heartbeats, frames of one command, and an
    expectation of several requirements."""
    for key, group in groupby(enumerate(rows), key=_alike):
        members = [row for _, row in group]
        if key[0] == "IntervalExpected" or len(members) >= FOLD_FROM:
            yield members
        else:
            yield from ([row] for row in members)


def _alike(numbered: tuple[int, Row]) -> tuple[object, ...]:
    """Return the key that neighbours in one step have in common; ``index - place`` differs where
    events were left out between them."""
    place, row = numbered
    kind, unbroken = row["kind"], row["index"] - place
    if kind in ("HeartBeatSent", "HeartBeatReceived"):
        return kind, row["conn"], unbroken
    if kind in ("FrameSent", "FrameReceived"):
        return kind, row["conn"], row["command"], unbroken
    if kind == "IntervalExpected":
        return kind, row["label"], row["lo_ns"], row["hi_ns"], unbroken
    return "alone", place
