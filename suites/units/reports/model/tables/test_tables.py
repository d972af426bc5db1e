"""The tables, each on a small DataFrame. The expected result is given first."""

from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from brokerproof.harness.model.enums import CloseHow, Vantage
from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.trace import events as ev
from brokerproof.reports.model.index_model import CaseRow
from brokerproof.reports.model.tables.coverage import coverage
from brokerproof.reports.model.tables.errors import errors_of
from brokerproof.reports.model.tables.frames import frames
from brokerproof.reports.model.tables.history import changed, history
from brokerproof.reports.model.tables.liveness import liveness
from brokerproof.reports.model.tables.matrix import matrix
from brokerproof.reports.model.tables.measurements import measurements
from brokerproof.reports.model.tables.verdicts import cases, counts, rank
from brokerproof.reports.sources.result_rows import FINDINGS
from brokerproof.reports.sources.result_rows import RESULTS as RESULT_ROWS
from brokerproof.suites.units.drivers import frames as drawn
from brokerproof.suites.units.drivers.event_dataframe import recorded


def results(*rows: tuple[str, str, str, str, float]) -> pa.Table:
    """Results from ``run, target, case, verdict, duration_s``."""
    names = ("run", "target", "case", "verdict", "duration_s")
    empty = dict.fromkeys(RESULT_ROWS.names)
    full = [empty | dict(zip(names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(full, schema=RESULT_ROWS)


def findings(*rows: tuple[str, str, str, str, str]) -> pa.Table:
    """Findings from ``target, case, requirement, seen, verdict``."""
    full = [
        {"run": "r", "target": target, "case": case, "number": 0, "requirement": requirement}
        | {"seen": seen, "detail": "", "uncertain": None, "verdict": verdict}
        for target, case, requirement, seen, verdict in rows
    ]
    return pa.Table.from_pylist(full, schema=FINDINGS)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def test_verdicts_rank_in_merge_order() -> None:
    words = ["PASS", "NOTE", "SKIP", "WARN", "KNOWN", "INCONCLUSIVE", "FAIL", "ERROR", "nonsense"]
    assert rank(pa.chunked_array([words])).to_pylist() == [7, 6, 5, 4, 3, 2, 1, 0, -1]


def test_a_case_keeps_its_row_and_gets_the_rank_of_its_verdict() -> None:
    given = results(("r", "t", "c1", "FAIL", 0.5), ("r", "t", "c2", "PASS", 1.0))
    ranked = cases(given)
    assert ranked.drop_columns(["rank"]).equals(given)
    expected = [("c1", "FAIL", 1), ("c2", "PASS", 7)]
    assert rows_of(ranked.select(["case", "verdict", "rank"])) == expected


def test_verdicts_are_counted_per_run_and_target() -> None:
    given = results(
        ("r", "a", "c1", "FAIL", 0.5),
        ("r", "b", "c1", "PASS", 2.0),
        ("r", "a", "c3", "PASS", 1.0),
        ("r", "a", "c2", "FAIL", 0.25),
    )
    counted = counts(cases(given))
    assert counted.column_names == ["run", "target", "verdict", "rank", "cases", "seconds"]
    assert sorted(rows_of(counted)) == [
        ("r", "a", "FAIL", 1, 2, 0.75),
        ("r", "a", "PASS", 7, 1, 1.0),
        ("r", "b", "PASS", 7, 1, 2.0),
    ]


def test_the_matrix_shows_the_worst_verdict_and_a_case_that_has_it() -> None:
    given = findings(
        ("a", "c1", "R-1", "HELD", "PASS"),
        ("a", "c3", "R-1", "VIOLATED", "FAIL"),
        ("a", "c2", "R-1", "VIOLATED", "FAIL"),
        ("a", "c2", "R-1", "VIOLATED", "FAIL"),
        ("b", "c1", "R-1", "HELD", "PASS"),
        ("a", "c1", "R-2", "NEVER_REACHED", "INCONCLUSIVE"),
    )
    assert matrix(given).to_pylist() == [
        {
            "requirement": requirement,
            "run": "r",
            "target": target,
            "verdict": verdict,
            "rank": place,
            "cases": count,
            "case": case,
        }
        for requirement, target, verdict, place, count, case in (
            ("R-1", "a", "FAIL", 1, 3, "c2"),
            ("R-2", "a", "INCONCLUSIVE", 2, 1, "c1"),
            ("R-1", "b", "PASS", 7, 1, "c1"),
        )
    ]


def test_coverage_counts_citations_and_what_was_really_judged() -> None:
    catalogue = pa.table({"requirement": ["R-1", "R-2", "R-3", "R-4"]})
    given = findings(
        ("a", "c1", "R-1", "HELD", "PASS"),
        ("a", "c2", "R-1", "VIOLATED", "FAIL"),
        ("a", "c1", "R-2", "NEVER_REACHED", "INCONCLUSIVE"),
        ("a", "c4", "R-4", "HELD", "ERROR"),
        ("a", "c1", "R-9", "HELD", "PASS"),
    )
    covered = coverage(catalogue, given)
    assert covered.column_names == ["requirement", "cases", "judged", "covered"]
    assert rows_of(covered) == [
        ("R-1", 2, 2, True),
        ("R-2", 1, 0, False),
        ("R-3", 0, 0, False),
        ("R-4", 1, 0, False),
    ]


def test_tables_of_a_run_without_results_have_no_rows() -> None:
    nothing = cases(results())
    assert counts(nothing).num_rows == 0
    assert matrix(findings()).num_rows == 0
    assert history(nothing, ["r"]).num_rows == 0
    expected = [("R-1", 0, 0, False)]
    assert rows_of(coverage(pa.table({"requirement": ["R-1"]}), findings())) == expected


def test_errors_are_broken_cases_and_unreadable_bytes() -> None:
    rows = [
        CaseRow("r", "t", case, verdict, detail, (), 1, 0.0, "{}")
        for case, verdict, detail in (("c1", "ERROR", "control failed"), ("c2", "FAIL", "too late"))
    ]
    unreadable = {"run": "r", "target": "t", "case": "c", "what": "octets", "detail": "not UTF-8"}
    found = errors_of(rows, [unreadable | {"case": "d"}, unreadable])
    assert [(row["case"], row["what"], row["detail"]) for row in found] == [
        ("c1", "case", "control failed"),
        ("c", "octets", "not UTF-8"),
        ("d", "octets", "not UTF-8"),
    ]


def test_frames_are_flat_and_their_bodies_are_cut_and_printable(spark: SparkSession) -> None:
    expected = spark.createDataFrame(
        [
            (0, "sent", "SEND", "a:1\nb:2:3", "x.y", 300, 400),
            (1, "received", "(heart-beat)", "", None, None, 1),
            (2, "received", "(octets)", "", "..", 2, None),
            (3, "sent", "SEND", "", "z" * 256, 9000, 9100),
        ],
        "position int, direction string, command string, headers string, body string, body_size"
        " long, size long",
    )
    trace = recorded(
        spark,
        [
            drawn.sent(
                "SEND", {"a": "1", "b": "2:3"}, at_ns=1, body=b"x\ny", body_size=300, size=400
            ),
            ev.HeartBeatReceived(at_ns=2, conn=1, protocol="STOMP", size=1),
            ev.OctetsRefused(at_ns=3, conn=1, data=b"\xc3\x00", detail="not UTF-8"),
            drawn.sent("SEND", at_ns=4, body=b"z" * 500, body_size=9000, size=9100),
            ev.Noted(at_ns=5, detail="not on the wire"),
        ],
    )
    wanted = ["position", "direction", "command", "headers", "body", "body_size", "size"]
    assertDataFrameEqual(frames(trace).select(*wanted).fillna("", ["headers"]), expected)


def test_secrets_are_blanked_wherever_they_stand(spark: SparkSession) -> None:
    expected = spark.createDataFrame(
        [
            ("login:me\nPassCode:(blanked)", "", 0),
            ("", "CONNECT.login:me.passcode:(blanked)..", 32),
        ],
        "headers string, body string, body_size long",
    )
    trace = recorded(
        spark,
        [
            drawn.sent("CONNECT", {"login": "me", "PassCode": "hush"}, at_ns=1, size=9),
            ev.OctetsSent(at_ns=2, conn=1, data=b"CONNECT\nlogin:me\npasscode:hush\n\0", size=33),
        ],
    )
    assertDataFrameEqual(
        frames(trace).select("headers", "body", "body_size").fillna("", ["headers"]), expected
    )


def test_a_measurement_knows_its_distance_from_the_nearest_bound(spark: SparkSession) -> None:
    expected = spark.createDataFrame(
        [
            ("inside", 2, "inside"),
            ("on the bound", 0, "inside"),
            ("in the margin", -3, "margin"),
            ("outside", -4, "outside"),
            ("open above", 90, "inside"),
            ("below an open one", -10, "outside"),
            ("boundless", None, "inside"),
        ],
        "label string, distance long, lies string",
    )

    def measured(
        label: str, value: int, lo: int | None, hi: int | None, margin: int = 0
    ) -> ev.Event:
        return ev.Measured(
            at_ns=1, label=label, value=value, lo=lo, hi=hi, margin=margin, unit="ns"
        )

    trace = recorded(
        spark,
        [
            measured("inside", 12, 10, 20),
            measured("on the bound", 20, 10, 20),
            measured("in the margin", 23, 10, 20, 3),
            measured("outside", 24, 10, 20, 3),
            measured("open above", 100, 10, None),
            measured("below an open one", 0, 10, None),
            measured("boundless", 5, None, None),
        ],
    )
    assertDataFrameEqual(measurements(trace).select("label", "distance", "lies"), expected)


def test_liveness_measures_silence_in_both_directions(spark: SparkSession) -> None:
    expected = spark.createDataFrame(
        [
            (1, 0, seconds(5), "broker EOF", seconds(4), seconds(2), seconds(4), 1, 2),
            (2, ms(10), ms(40), "harness RESET", ms(30), ms(30), ms(30), 0, 0),
            (3, ms(50), None, None, None, None, None, 0, 0),
        ],
        "conn long, opened_ns long, ended_ns long, ended string, longest_sent_gap_ns long,"
        " longest_received_gap_ns long,silent_before_end_ns long, beats_sent long, beats_received"
        " long",
    )

    def opened(conn: int, at: int) -> ev.Event:
        return ev.ConnectionOpened(at_ns=at, conn=conn, protocol="STOMP", acceptor="stomp")

    trace = recorded(
        spark,
        [
            opened(1, 0),
            opened(2, ms(10)),
            ev.ConnectionAbandoned(at_ns=ms(40), conn=2, how=CloseHow.RESET),
            opened(3, ms(50)),
            ev.HeartBeatSent(at_ns=seconds(1), conn=1, protocol="STOMP", size=1),
            ev.HeartBeatReceived(at_ns=seconds(2), conn=1, protocol="STOMP", size=1),
            ev.HeartBeatReceived(at_ns=seconds(4), conn=1, protocol="STOMP", size=1),
            ev.Observed(
                at_ns=seconds(5), conn=1, vantage=Vantage.BROKER, requirement="R", detail="TTL"
            ),
            ev.ConnectionClosed(at_ns=seconds(5), conn=1, how=CloseHow.EOF),
        ],
    )
    assertDataFrameEqual(liveness(trace).select(*expected.columns), expected)


def test_history_says_what_became_of_each_case_in_order_of_start() -> None:
    expected = [
        ("t", "broke", "PASS", "FAIL", 2, "WORSE", ["old", "new"]),
        ("t", "steady", "PASS", "PASS", 1, "SAME", ["old", "mid", "new"]),
        ("t", "there and back", "PASS", "PASS", 2, "SAME", ["old", "mid", "new"]),
        ("t", "unclear", "FAIL", "INCONCLUSIVE", 2, "UNDECIDED", ["mid", "new"]),
        ("u", "mended", "FAIL", "PASS", 2, "BETTER", ["old", "new"]),
        ("u", "once", "FAIL", "FAIL", 1, "SAME", ["mid"]),
    ]
    said = {
        ("t", "broke"): {"new": "FAIL", "old": "PASS"},
        ("t", "steady"): {"old": "PASS", "new": "PASS", "mid": "PASS"},
        ("t", "there and back"): {"old": "PASS", "mid": "WARN", "new": "PASS"},
        ("t", "unclear"): {"mid": "FAIL", "new": "INCONCLUSIVE"},
        ("u", "mended"): {"old": "FAIL", "new": "PASS"},
        ("u", "once"): {"mid": "FAIL"},
    }
    rows = [
        (run, *key, verdict, 0.0)
        for key, verdicts in said.items()
        for run, verdict in verdicts.items()
    ]
    table = history(cases(results(*rows)), ["old", "mid", "new"]).to_pylist()
    found = [(*list(row.values())[:6], [stage["run"] for stage in row["runs"]]) for row in table]
    assert found == expected
    order = changed(table)
    assert [row["case"] for row in order] == ["broke", "unclear", "there and back", "mended"]
