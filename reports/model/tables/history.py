"""How cases changed from run to run, on targets that several runs judged."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.difference import Course, course

HISTORY = pa.schema(
    [
        ("target", pa.string()),
        ("case", pa.string()),
        ("first", pa.string()),
        ("last", pa.string()),
        ("verdicts", pa.int32()),
        ("course", pa.string()),
        (
            "runs",
            pa.list_(
                pa.struct([("place", pa.int32()), ("run", pa.string()), ("verdict", pa.string())])
            ),
        ),
    ]
)


def history(cases: pa.Table, runs: Sequence[str]) -> pa.Table:
    """``target, case, first, last, verdicts, course, runs``, by target and case, from the table of
    cases. The ``runs`` argument has the names of the runs in order of start.

    ``first`` and ``last`` are the verdicts of the first and the last run that judged the case,
    ``verdicts`` the number of different ones, ``course`` the change from first to last (in the
    terms of ``brokerproof diff``), and the column ``runs`` an array of ``place, run, verdict`` for
    every run, in order of start."""
    places = {run: place for place, run in enumerate(runs)}
    case = itemgetter("target", "case")
    judged = sorted(
        cases.select(["target", "case", "run", "verdict"]).to_pylist(),
        key=lambda row: (*case(row), places[row["run"]]),
    )
    rows = []
    for (target, name), group in groupby(judged, key=case):
        stages = [
            {"place": places[row["run"]], "run": row["run"], "verdict": row["verdict"]}
            for row in group
        ]
        first, last = stages[0]["verdict"], stages[-1]["verdict"]
        rows.append(
            {
                "target": target,
                "case": name,
                "first": first,
                "last": last,
                "verdicts": len({stage["verdict"] for stage in stages}),
                "course": course(Verdict(first), Verdict(last)).value,
                "runs": stages,
            }
        )
    return pa.Table.from_pylist(rows, schema=HISTORY)


def changed(history: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the cases whose verdict was not always the same, by target: first those that got
    worse, last those that recovered."""
    order = {way.value: place for place, way in enumerate(Course)}
    return sorted(
        (row for row in history if row["verdicts"] > 1),
        key=lambda row: (row["target"], order[row["course"]], row["case"]),
    )
