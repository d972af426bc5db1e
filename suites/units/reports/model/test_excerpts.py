"""From segments to DataFrames: the schema, resumed runs, and the part of a case that its page
shows."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType
from pyspark.testing import assertDataFrameEqual

from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace.columns import SCHEMA
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.reports.assembly.case_data import plan
from brokerproof.reports.model.excerpts import (
    BODY_BYTES,
    HEAD,
    HEAD_OF_PASS,
    MARKED,
    TAIL,
    TAIL_OF_PASS,
    chosen_parts,
    excerpt,
    violations,
)
from brokerproof.reports.sources import recorded_cases
from brokerproof.reports.sources.dataframes import ordered, trace
from brokerproof.reports.sources.runs import Run, open_runs
from brokerproof.reports.spark.schema import spark_type, trace_schema
from brokerproof.suites.units.drivers import frames
from brokerproof.suites.units.drivers.recorded_case import recorded_case
from brokerproof.suites.units.drivers.synthetic_run import header, silence, write_header


def test_the_schema_is_that_of_the_recorder() -> None:
    assert trace_schema().fieldNames() == SCHEMA.names
    assert trace_schema()["at_ns"] == StructField("at_ns", LongType(), False)
    assert trace_schema()["conn"] == StructField("conn", LongType(), True)
    assert trace_schema()["body"].dataType == BinaryType()
    pair = StructType(
        [StructField("name", StringType(), False), StructField("value", StringType(), False)]
    )
    assert trace_schema()["headers"].dataType == ArrayType(pair, False)


def test_a_column_type_nobody_agreed_on_is_refused() -> None:
    with pytest.raises(TypeError, match="no Spark type is defined for Arrow's float"):
        spark_type(pa.float32())


def run_of(folder: Path, *recordings: list[ev.Event], name: str = "r") -> Run:
    """Write a run in which one case was recorded several times, a segment each, in that order."""
    write_header(folder, header(name))
    for number, events in enumerate(recordings):
        recorder = Recorder(folder, name, "t=1", Clock.VIRTUAL, tag=str(9 - number))
        recorder.write("c", events)
        recorder.flush()
        segment = folder / "trace" / "target=t=1" / f"part-{9 - number}-00000.parquet"
        os.utime(segment, (1_700_000_000 + number, 1_700_000_000 + number))
    (run,) = open_runs([folder])
    return run


def test_of_a_case_recorded_twice_the_last_recording_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    notes = [
        [ev.Noted(at_ns=number, detail=f"{when} {number}") for number in range(3)]
        for when in ("first", "second")
    ]
    expected = spark.createDataFrame(
        [(place, 0, f"second {place}") for place in range(3)],
        "position int, part long, detail string",
    )
    found = trace(spark, [run_of(tmp_path / "r", *notes)])
    assertDataFrameEqual(found.select("position", "part", "detail"), expected)


def test_events_are_moved_and_sorted_once(spark: SparkSession, tmp_path: Path) -> None:
    found = trace(spark, [run_of(tmp_path / "r", [ev.Noted(at_ns=0, detail="")])])
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert (plan.count("Exchange hashpartitioning"), plan.count("Sort [")) == (1, 1)


def test_folders_with_strange_names_are_read_and_name_the_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = [
        run_of(tmp_path / "a [1] {x}*" / "out", [ev.Noted(at_ns=1, detail="one")], name="out"),
        run_of(tmp_path / "b=2 ü" / "out", [ev.Noted(at_ns=1, detail="two")], name="out"),
    ]
    expected = spark.createDataFrame(
        [("out", "one"), ("out (2)", "two")], "run string, detail string"
    )
    found = trace(spark, open_runs([run.folder for run in runs]))
    assertDataFrameEqual(found.select("run", "detail"), expected)


def test_a_run_without_a_trace_has_no_events(spark: SparkSession, tmp_path: Path) -> None:
    write_header(tmp_path, header("r"))
    assert trace(spark, open_runs([tmp_path])).count() == 0


def test_examples_number_the_parts_of_a_case(spark: SparkSession) -> None:
    kinds = ["CaseStarted", "ExampleStarted", "Noted", "ExampleStarted", "Noted"]
    given = spark.createDataFrame(
        [("r", "t", "c", kind, "s", row, False) for row, kind in enumerate(kinds)],
        "run string, target string, case string, kind string, segment string, row int, once"
        " boolean",
    )
    expected = spark.createDataFrame(
        [(0, 0), (1, 1), (2, 1), (3, 2), (4, 2)], "position int, part long"
    )
    assertDataFrameEqual(ordered(given).select("position", "part"), expected)


def test_a_case_that_goes_on_over_segments_of_two_recorders_is_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_header(tmp_path, {**header("r"), "load": {}})
    for tag in ("0", "1"):
        recorder = Recorder(tmp_path, "r", "t", Clock.REAL, tag, segment_rows=2)
        for at in range(5):
            recorder.write("load", [ev.Noted(at_ns=at, detail=f"{tag}.{at}")], goes_on=True)
        recorder.flush()
    found = trace(spark, open_runs([tmp_path])).orderBy("position").select("detail").collect()
    for tag in ("0", "1"):
        assert [row.detail for row in found if row.detail[0] == tag] == [
            f"{tag}.{at}" for at in range(5)
        ]


def shown(events: list[ev.Event], most: int = 3) -> list[dict[str, Any]]:
    case = recorded_case(events)
    return [excerpt(case, places) for places in chosen_parts(case, most)]


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    """Return the positions of rows in their example, from 1."""
    listed: list[int] = []
    for row in rows:
        listed.append(row.get("index", listed[-1] + 1 if listed else 1))
    return listed


def test_a_page_shows_the_shrunk_failure_first_and_then_what_came_nearest_to_a_bound() -> None:
    closings = [
        seconds(3),
        ms(2002),
        ms(3999),
        seconds(9),
        seconds(8),
        ms(2500),
    ]  # the fourth and fifth fail
    events: list[ev.Event] = []
    for number, closed in enumerate(closings):
        part = silence(closed, example=number)
        if closed > seconds(4):
            part.append(ev.Judged(at_ns=closed, requirement="R", seen="VIOLATED", detail="late"))
        events += part
    parts = shown(events)
    assert [part["part"] for part in parts] == [5, 4, 2]
    assert recorded_case(events).parts[-1] == 6
    assert parts[0]["rows"][0]["kind"] == "ExampleStarted"
    assert numbers(parts[0]["rows"]) == list(range(1, parts[0]["events"] + 1))


def judged_examples(*details: str) -> list[ev.Event]:
    """Return an example for each detail; an empty detail means no violation."""
    events: list[ev.Event] = []
    for number, detail in enumerate(details):
        events.append(ev.ExampleStarted(at_ns=0, example=number))
        seen = "VIOLATED" if detail else "HELD"
        events.append(ev.Judged(at_ns=1, requirement="R", seen=seen, detail=detail))
    return events


def test_a_page_begins_with_the_example_that_the_headline_quotes() -> None:
    case = recorded_case(judged_examples("", "first", "second", "third"))
    assert violations(case) == {2: [("R", "first")], 3: [("R", "second")], 4: [("R", "third")]}
    quoted = [("R", "second"), ("Q", "of another requirement")]
    chosen = chosen_parts(case, 3, quoted)
    assert [int(case.parts[places[0]]) for places in chosen] == [3, 4, 2]


def test_of_a_case_that_passed_the_disputed_example_is_shown() -> None:
    case = recorded_case(judged_examples("", "", ""))
    (places,) = chosen_parts(case, 1, disputed={3})
    assert int(case.parts[places[0]]) == 3


def test_of_a_long_case_a_page_shows_both_ends_and_what_was_judged() -> None:
    events: list[ev.Event] = [
        frames.received("MESSAGE", at_ns=number, body=b"x" * 5000, body_size=5000)
        for number in range(1000)
    ]
    events[500] = ev.Judged(at_ns=500, requirement="R", seen="HELD", detail="in the middle")
    (only,) = shown(events)
    assert numbers(only["rows"]) == [*range(1, HEAD + 1), 501, *range(1000 - TAIL + 1, 1001)]
    assert (only["events"], only["part"]) == (1000, 0)
    assert max(len(row.get("body", "")) for row in only["rows"]) == BODY_BYTES


def test_of_a_case_that_passed_a_page_shows_less() -> None:
    events: list[ev.Event] = [ev.Noted(at_ns=at, detail="step") for at in range(1000)]
    case = recorded_case(events)
    (places,) = chosen_parts(case, 1)
    rows = excerpt(case, places, passed=True)["rows"]
    ends = [*range(1, HEAD_OF_PASS + 1), *range(1000 - TAIL_OF_PASS + 1, 1001)]
    assert numbers(rows) == ends
    assert len(ends) < HEAD + TAIL


def test_no_case_can_make_its_page_grow() -> None:
    events = [
        ev.Judged(at_ns=number, requirement="R", seen="HELD", detail="again")
        for number in range(1000)
    ]
    (only,) = shown(events)
    assert len(only["rows"]) <= HEAD + TAIL + MARKED


def test_a_page_never_gets_a_secret() -> None:
    events: list[ev.Event] = [
        frames.sent("CONNECT", {"login": "me", "passcode": "hush"}, at_ns=1, size=9),
        ev.OctetsSent(
            at_ns=2, conn=1, data=b"CONNECT\nAuthorization : hush\r\nx:y\n\n\x00", size=36
        ),
    ]
    for command, response in (
        ("sasl-init", "initial-response"),
        ("connection.start-ok", "response"),
    ):
        said = {"mechanism": "PLAIN", response: "\0me\0hush"}
        events.append(frames.sent(command, said, at_ns=3, protocol="AMQP", size=9))
    for between in (b"\xa0\x08", b"\xb0\x00\x00\x00\x08", b"\x00\x00\x00\x08"):
        events.append(
            ev.OctetsSent(
                at_ns=4, conn=1, data=b"\xa3\x05PLAIN" + between + b"\x00me\x00hush", size=20
            )
        )
    (only,) = shown(events)
    connect, data, *sasl = only["rows"]
    assert [row["headers"][1][1] for row in sasl[:2]] == ["(blanked)", "(blanked)"]
    assert [row["data"].rpartition("\0")[2] for row in sasl[2:]] == ["(blanked)"] * 3
    assert connect["headers"] == [["login", "me"], ["passcode", "(blanked)"]]
    assert data["data"] == "CONNECT\nAuthorization :(blanked)\r\nx:y\n\n\x00"
    assert data["data_size"] == 36


def test_the_segments_of_a_load_are_read_at_both_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_header(tmp_path, {**header("r"), "load": {}})
    recorder = Recorder(tmp_path, "r", "t", Clock.REAL, segment_rows=200)
    for at in range(1000):
        recorder.write("load", [ev.Noted(at_ns=at, detail=str(at))], goes_on=True)
    recorder.flush()
    (run,) = open_runs([tmp_path])
    monkeypatch.setattr(recorded_cases, "MOST_EVENTS", 300)
    (work,) = plan([], [], [run])
    ((name, case),) = recorded_cases.cases_of(work.paths)
    assert (name, case.total, len(case)) == ("load", 1000, 600)
    (places,) = chosen_parts(case, 3)
    rows = excerpt(case, places)["rows"]
    assert numbers(rows) == [*range(1, HEAD + 1), *range(1000 - TAIL + 1, 1001)]
    assert rows[-1]["detail"] == "999"


def test_the_largest_segments_are_read_first(tmp_path: Path) -> None:
    few, many = (
        [ev.Noted(at_ns=at, detail=str(at**at)) for at in range(size)] for size in (3, 300)
    )
    run = run_of(tmp_path / "r", few, many, few)
    sizes = [Path(path).stat().st_size for work in plan([], [], [run]) for path in work.paths]
    assert len(sizes) == 3
    assert sizes == sorted(sizes, reverse=True)


def test_a_task_leaves_out_what_a_later_segment_records_again(tmp_path: Path) -> None:
    notes = [[ev.Noted(at_ns=0, detail=when)] for when in ("first", "second")]
    run = run_of(tmp_path / "r", *notes)
    first, second = sorted(plan([], [], [run]), key=lambda work: work.paths, reverse=True)
    assert (first.superseded, second.superseded) == ({"c"}, frozenset())
