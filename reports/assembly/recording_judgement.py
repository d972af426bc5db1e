"""Judges recordings, large ones on a Spark of its own, and says what is wrong with them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from brokerproof.harness.catalogue import profiles
from brokerproof.harness.catalogue.requirements import load
from brokerproof.harness.oracles.capture_gaps import OF_ALL
from brokerproof.harness.oracles.expectations import NOTHING, Expectations, expectations_of
from brokerproof.harness.results.verdict import exit_code
from brokerproof.harness.trace.read import UnreadableTrace, row_count
from brokerproof.reports.assembly.failures import in_one_sentence
from brokerproof.reports.assembly.refusals import Refusal
from brokerproof.reports.judging import small_recordings
from brokerproof.reports.judging.capture_gaps import missing_in
from brokerproof.reports.judging.conclusion import Conclusion, conclude, conclude_small, witness
from brokerproof.reports.judging.judge import JUDGED_GROUPS, find_anomalies
from brokerproof.reports.judging.recheck import MOST_IN_PROCESS
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.sources import Source, captures, segments
from brokerproof.reports.spark import on_demand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_CAPTURE, SMALL_SEGMENTS = 2 << 20, 8 << 20
"""Bytes of packets, and of segments, which are compressed. More is not a small recording."""
WITHOUT_SPARK = 4
"""Where Spark is missing, a recording of so many times the bytes and events is small: judging it in
this process is slower, not impossible."""
HEAP = "2g"
"""The driver's memory. Events are read by Python workers; what the JVM handles is summaries, which
are few, and what is looked at again, which it may write to disk."""


def command(
    traces: Sequence[str], profile: str | None, *, whole: bool, master: str | None, as_json: bool
) -> int:
    """Judge as ``brokerproof judge`` does and return its exit code; the arguments are its
    options."""

    def step(name: str) -> None:
        if not as_json:
            click.echo(f"judge: {name}", err=True)

    level_of = Requirements(load().values()).level
    guessed = profile is None
    with in_one_sentence(), _readable(), ExitStack() as stack:
        small = small_source(traces, whole=whole) if master is None else None
        if small is not None:
            source, named = small, profile or small.profile or "stomp"
            ground = ground_of(named, guessed=guessed)
            step(f"judging as {named}")
            found = small_recordings.find_anomalies(source, ground)
            conclusion, missing = conclude_small(found, level_of), found.missing
        else:
            on_demand.require("a recording of this size")
            from brokerproof.reports.spark.session import session
            from brokerproof.reports.spark.without_pandas import leave_pandas_out

            leave_pandas_out()
            step("Spark starts")
            spark = stack.enter_context(session(master, brief=True, heap=HEAP))
            step("looking at the recording")
            source = source_of(spark, traces, whole=whole)
            named = profile or source.profile or "stomp"
            step(f"judging as {named}")
            judgement = find_anomalies(spark, source, ground_of(named, guessed=guessed))
            step("anomalies and their witnesses")
            conclusion, missing = conclude(judgement, level_of), missing_in(judgement.merged)
        doubt = not source.whole and any(wrong.kind in OF_ALL for wrong in conclusion.wrong)
    if as_json:
        click.echo(
            json.dumps(
                {**as_data(conclusion, named), "unseen": [gap.as_data() for gap in missing]},
                indent=1,
            )
        )
        return exit_code([conclusion.verdict])
    click.echo(text(conclusion, named))
    for gap in missing:
        click.echo(f"not seen  {gap}")
    if doubt:
        click.echo(
            "A connection that was not captured may explain it; --complete says that all of one"
            " broker's are there."
        )
    return exit_code([conclusion.verdict])


def small_source(traces: Sequence[str], *, whole: bool = False) -> Source | None:
    """Return the source of the traces if their events fit into this process several times
    (:mod:`brokerproof.reports.judging.small_recordings`), else None. Raises
    :class:`brokerproof.harness.trace.read.UnreadableTrace`."""
    if any(segments.is_elsewhere(name) for name in traces):
        return None
    times = 1 if on_demand.installed() else WITHOUT_SPARK
    captured = _captured(traces)
    if captured:
        size = sum(path.stat().st_size for path in captures.files(captured))
        return captures.local(captured, whole=whole) if size <= times * SMALL_CAPTURE else None
    files = segments.files(traces)
    if sum(file.stat().st_size for file in files) > times * SMALL_SEGMENTS:
        return None
    few = sum(map(row_count, files)) <= times * MOST_IN_PROCESS
    return segments.local(traces, parallel=os.cpu_count() or 1) if few else None


def _captured(traces: Sequence[str]) -> list[str]:
    """Return those of the traces that are captured packets: all or none. Raises
    :class:`brokerproof.harness.trace.read.UnreadableTrace`."""
    captured = [
        name for name in traces if not segments.is_elsewhere(name) and captures.holds_captures(name)
    ]
    if captured and len(captured) < len(traces):
        raise UnreadableTrace(
            "give either captured packets or recorded traces; judge them one after the other"
        )
    return captured


def source_of(spark: SparkSession, traces: Sequence[str], *, whole: bool = False) -> Source:
    """Return the source of the traces; ``whole`` concerns captures. Raises
    :class:`brokerproof.harness.trace.read.UnreadableTrace`."""
    captured = _captured(traces)
    if captured:
        return captures.local(captured, spark.sparkContext.defaultParallelism, whole=whole)
    away = [name for name in traces if segments.is_elsewhere(name)]
    if away and len(away) < len(traces):
        raise UnreadableTrace("give either paths or URIs, not both; judge them one after the other")
    return (
        segments.elsewhere(spark, away)
        if away
        else segments.local(traces, spark.sparkContext.defaultParallelism)
    )


def ground_of(profile: str, *, guessed: bool) -> Expectations:
    """Return the promises of a profile. ``guessed``: it is not known that the broker had its
    defaults, so only what every configuration has in common counts. Raises
    :class:`brokerproof.harness.catalogue.profiles.UnknownProfile`."""
    if profile == "stomp":
        return NOTHING
    return expectations_of(profile, profiles.load(profile).parameters, defaults=not guessed)


def text(conclusion: Conclusion, profile: str) -> str:
    lines = [f"{conclusion.verdict.value}  judged as {profile}"]
    for what, (groups, again) in sorted(conclusion.groups.items()):
        looked = f", {again} rechecked" if again else ""
        lines.append(f"  {groups} {JUDGED_GROUPS[what]}{looked}")
    for wrong in conclusion.wrong:
        first = wrong.first
        where = ", ".join(
            [
                first["case"],
                *([first["queue"]] if first["queue"] else []),
                f"connection {first['conn']}",
            ]
        )
        lines += [
            f"{wrong.verdict.value}  {wrong.kind} ×{wrong.count}  {wrong.requirement}".rstrip(),
            f"  {first['what']}",
            f"  {where}; at {witness(first)}",
        ]
    return "\n".join(lines)


def as_data(conclusion: Conclusion, profile: str) -> dict[str, object]:
    return {
        "verdict": conclusion.verdict.value,
        "profile": profile,
        "looked_at": {
            what: {"groups": groups, "again": again}
            for what, (groups, again) in conclusion.groups.items()
        },
        "wrong": [
            {
                "kind": wrong.kind,
                "requirement": wrong.requirement,
                "verdict": wrong.verdict.value,
                "count": wrong.count,
            }
            for wrong in conclusion.wrong
        ],
        "irregularities": list(conclusion.listed),
    }


class _readable:
    """Turns an unreadable trace or an unknown profile into a refusal."""

    def __enter__(self) -> None:
        """Nothing yet."""

    def __exit__(self, _: object, problem: BaseException | None, __: object) -> None:
        if isinstance(problem, (UnreadableTrace, profiles.UnknownProfile)):
            raise Refusal(str(problem)) from None
