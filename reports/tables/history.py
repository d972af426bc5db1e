"""Changes of a case from run to run, for targets that several runs judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.difference import Course, course


def history(cases: DataFrame, runs: Sequence[str]) -> DataFrame:
    """``target, case, first, last, verdicts, course, runs`` of the table of cases; ``runs`` are
    names in order of start.

    ``first`` and ``last`` are the verdicts of the first and the last run that judged the case,
    ``verdicts`` how many different ones there were, ``course`` which way it went from first to last
    (as ``brokerproof diff`` says it), and the column ``runs`` an array of ``place, run, verdict``
    in order of start, as long as there are runs.
    """
    place = F.create_map(*[F.lit(value) for at, run in enumerate(runs) for value in (run, at)])
    went = F.create_map(
        *[
            F.lit(text)
            for a, b in product(Verdict, repeat=2)
            for text in (f"{a}>{b}", course(a, b).value)
        ]
    )
    stages = F.array_sort(
        F.collect_list(F.struct(place[F.col("run")].alias("place"), "run", "verdict"))
    )
    return (
        cases.groupBy("target", "case")
        .agg(stages.alias("runs"))
        .withColumns(
            {
                "first": F.element_at("runs", 1)["verdict"],
                "last": F.element_at("runs", -1)["verdict"],
                "verdicts": F.size(F.array_distinct(F.col("runs")["verdict"])),
            }
        )
        .withColumn("course", went[F.concat("first", F.lit(">"), "last")])
        .select("target", "case", "first", "last", "verdicts", "course", "runs")
    )


def changed(history: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of cases whose verdict was not always the same: by target, worse ones first,
    those that recovered last."""
    order = {way.value: place for place, way in enumerate(Course)}
    return sorted(
        (row for row in history if row["verdicts"] > 1),
        key=lambda row: (row["target"], order[row["course"]], row["case"]),
    )
