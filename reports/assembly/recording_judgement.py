"""Judges recordings, and reports violations. Large recordings are judged in a separate Spark
session."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from brokerproof.harness.catalogue import profiles
from brokerproof.harness.catalogue.requirements import Requirement, load
from brokerproof.harness.oracles.capture_gaps import OF_ALL
from brokerproof.harness.oracles.expectations import NOTHING, Expectations, expectations_of
from brokerproof.harness.results.verdict import exit_code
from brokerproof.harness.trace.read import UnreadableTrace, row_count
from brokerproof.reports.assembly.failures import in_one_sentence
from brokerproof.reports.assembly.refusals import Refusal
from brokerproof.reports.judging import small_recordings
from brokerproof.reports.judging.capture_gaps import Missing, missing_in
from brokerproof.reports.judging.conclusion import Conclusion, conclude, conclude_small, witness
from brokerproof.reports.judging.judge import JUDGED_GROUPS, find_anomalies
from brokerproof.reports.judging.recheck import MOST_IN_PROCESS
from brokerproof.reports.judging.summary import CONNECTION
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.sources import Source, captures, segments
from brokerproof.reports.spark import on_demand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_CAPTURE, SMALL_SEGMENTS = 2 << 20, 8 << 20
"""The maximum number of bytes of packets, or of compressed segments, in a small recording."""
WITHOUT_SPARK = 4
"""Without Spark, a recording with up to this many times the bytes and events still counts as small.
This process can judge such a recording, though more slowly."""
HEAP = "2g"
"""The driver's memory. Python workers read the events; the JVM handles only the few summaries and
the events that are read again, and may write these to disk."""


def command(
    traces: Sequence[str], profile: str | None, *, whole: bool, master: str | None, as_json: bool
) -> int:
    """Do what ``brokerproof judge`` does, and return the exit code. The arguments are the command's
    options."""

    def step(name: str) -> None:
        if not as_json:
            click.echo(f"judge: {name}", err=True)

    with in_one_sentence(), readable():
        judged = judge(traces, profile, whole=whole, master=master, step=step)
    if as_json:
        missing = {"unseen": [gap.as_data() for gap in judged.missing]}
        clients = (
            {"clients": as_data(judged.of_clients, judged.profile)} if judged.of_clients else {}
        )
        data = as_data(judged.conclusion, judged.profile)
        click.echo(json.dumps({**data, **clients, **missing}, indent=1))
    else:
        click.echo(judged.text())
    return judged.exit_code


@dataclass(frozen=True)
class Judged:
    """A recording's conclusion about the broker and, if a proxy recorded it, about its clients."""

    profile: str
    conclusion: Conclusion
    of_clients: Conclusion | None
    missing: Sequence[Missing]
    source: Source

    @property
    def exit_code(self) -> int:
        halves = (self.conclusion, self.of_clients)
        return exit_code(half.verdict for half in halves if half is not None)

    def text(self) -> str:
        lines = [text(self.conclusion, self.profile)]
        lines += [f"not seen  {gap}" for gap in self.missing]
        if not self.source.whole and any(wrong.kind in OF_ALL for wrong in self.conclusion.wrong):
            lines.append(
                "A connection that was not captured may explain this; --complete states that the"
                " captures contain all connections of one broker."
            )
        if self.of_clients is not None:
            lines.append(text(self.of_clients, f"{self.profile}, the clients"))
        return "\n".join(lines)


def judge(
    traces: Sequence[str],
    profile: str | None,
    *,
    whole: bool,
    master: str | None,
    step: Callable[[str], object],
) -> Judged:
    """Judge recordings, and call ``step`` before each step. Raises the errors that
    :func:`in_one_sentence` turns into a refusal, and
    :class:`brokerproof.harness.catalogue.profiles.UnknownProfile`."""
    catalogue = load()
    level_of = Requirements(catalogue.values()).level
    small = small_source(traces, whole=whole) if master is None else None
    with ExitStack() as stack:
        if small is None:
            on_demand.require("a recording of this size")
            from brokerproof.reports.spark.session import session
            from brokerproof.reports.spark.without_pandas import leave_pandas_out

            leave_pandas_out()
            step("Spark starts")
            spark = stack.enter_context(session(master, brief=True, heap=HEAP))
            step("examining the recording")
        source = small or source_of(spark, traces, whole=whole)
        named = profile or source.profile or "stomp"
        step(f"judging as {named}")
        ground = ground_of(named, guessed=profile is None)

        def concluded(source: Source) -> tuple[Conclusion, Sequence[Missing]]:
            if small is not None:
                found = small_recordings.find_anomalies(source, ground)
                return conclude_small(found, level_of), found.missing
            judgement = find_anomalies(spark, source, ground)
            step("anomalies and their witnesses")
            return conclude(judgement, level_of), missing_in(judgement.merged)

        conclusion, missing = concluded(source)
        of_clients = None
        if source.proxied:
            of_clients = on_clients(concluded(source.of_clients())[0], catalogue)
        return Judged(named, conclusion, of_clients, missing, source)


_SAME_DUTY = {"STOMP12-HB-07": "STOMP12-HB-09", "AMQP091-HB-02": "AMQP091-HB-07"}
"""For each duty of a broker, the corresponding duty of clients."""


def on_clients(conclusion: Conclusion, catalogue: Mapping[str, Requirement]) -> Conclusion:
    """For a recording whose sides were exchanged, return the part of its conclusion that binds
    clients."""

    def requirement(row: Mapping[str, Any]) -> str:
        named = _SAME_DUTY.get(row["requirement"], row["requirement"])
        return named if named and catalogue[named].subject in ("client", "both") else ""

    def words(row: Mapping[str, Any]) -> dict[str, Any]:
        return {**row, "what": row["what"].replace("the broker", "the client")}

    wrong = [
        replace(wrong, requirement=duty, first=words(wrong.first))
        for wrong in conclusion.wrong
        if (duty := requirement({"requirement": wrong.requirement}))
    ]
    listed = [
        {**words(row), "requirement": duty}
        for row in conclusion.listed
        if (duty := requirement(row))
    ]
    groups = {kind: count for kind, count in conclusion.groups.items() if kind == CONNECTION}
    return Conclusion(wrong, listed, groups)


def small_source(traces: Sequence[str], *, whole: bool = False) -> Source | None:
    """Return the source of the traces if this process can hold their events several times over
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
    """Return the traces if they are captured packets; they must all be captures, or none. Raises
    :class:`brokerproof.harness.trace.read.UnreadableTrace` for a mixture."""
    captured = [
        name for name in traces if not segments.is_elsewhere(name) and captures.holds_captures(name)
    ]
    if captured and len(captured) < len(traces):
        raise UnreadableTrace(
            "give either captured packets or recorded traces, not both; judge them separately"
        )
    return captured


def source_of(spark: "SparkSession", traces: Sequence[str], *, whole: bool = False) -> Source:
    """Return the source of the traces; ``whole`` applies to captures. Raises
    :class:`brokerproof.harness.trace.read.UnreadableTrace`."""
    captured = _captured(traces)
    if captured:
        return captures.local(captured, spark.sparkContext.defaultParallelism, whole=whole)
    away = [name for name in traces if segments.is_elsewhere(name)]
    if away and len(away) < len(traces):
        raise UnreadableTrace("give either paths or URIs, not both; judge them separately")
    return (
        segments.elsewhere(spark, away)
        if away
        else segments.local(traces, spark.sparkContext.defaultParallelism)
    )


def ground_of(profile: str, *, guessed: bool) -> Expectations:
    """Return the promises of a profile. With ``guessed``, the broker's configuration is unknown, so
    only promises that hold in every configuration are used. Raises
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


class readable:
    """Turns an unreadable trace or an unknown profile into a :class:`Refusal`."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _: object, problem: BaseException | None, __: object) -> None:
        if isinstance(problem, (UnreadableTrace, profiles.UnknownProfile)):
            raise Refusal(str(problem)) from None
