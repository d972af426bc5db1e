"""Tables of combinations: every compatible pair is in a row, as documented."""

from pathlib import Path
from unittest.mock import MagicMock

import pytest
from hypothesis import given

from brokerproof.suites.steps import (
    amqp091_combinations,
    amqp_combinations,
    settlement_combinations,
    stomp_combinations,
)
from brokerproof.suites.steps.combinations import Row, Table, excluding, pairs_of

TABLES = (
    *map(stomp_combinations.specified, ("1.0", "1.1", "1.2")),
    stomp_combinations.ARTEMIS,
    stomp_combinations.ARTEMIS_AUTO,
    stomp_combinations.RABBITMQ,
    stomp_combinations.CONNECT,
    settlement_combinations.OUTSIDE,
    settlement_combinations.WITHIN,
    amqp_combinations.SPECIFIED,
    amqp_combinations.ARTEMIS,
    amqp091_combinations.TABLE,
)
SMALL = Table(
    "two frames",
    {"a": ("1", "2"), "b": (None, "1", "2"), "c": ("1", "2")},
    excluding((("a", "1"), ("b", None))),
)


@pytest.mark.parametrize("table", [SMALL, *TABLES], ids=lambda table: table.frames)
def test_every_pair_that_may_meet_is_in_a_row(table: Table) -> None:
    rows = table.rows()
    assert table.covered(rows) == len(table.pairs())
    assert all(table.is_legal(row) and row.keys() == table.fields.keys() for row in rows)
    assert rows == table.rows()


def test_pairs_are_counted_and_excluded_ones_are_not() -> None:
    assert len(SMALL.pairs()) == 2 * 3 + 2 * 2 + 3 * 2 - 1
    assert SMALL.covered([]) == 0
    assert SMALL.covered([{"a": "2", "b": None, "c": "1"}]) == 3
    assert len(pairs_of({"a": "2", "b": None, "c": "1"})) == 3


@given(SMALL.drawn())
def test_rows_that_are_drawn_are_legal(row: Row) -> None:
    assert SMALL.is_legal(row)


def test_a_row_is_judged_behind_its_first_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    names = amqp091_combinations
    chosen = {names.NEIGHBOUR: names.LAST, names.EXCLUSIVE: "true", names.SENT: names.LATER}
    row = {name: chosen.get(name) for name in names.TABLE.fields}
    target = MagicMock()
    monkeypatch.setattr(names, "arrive", lambda *which, **fields: [])
    names.Play(target, row, names.Sentences("limit", "arrives", "without acks", "alone")).run()
    judged = [call.args[0] for call in target.record_finding.call_args_list]
    assert judged == ["limit", "arrives", "arrives", "arrives"]
    target.amqp091().refused.assert_called_once()


@pytest.mark.parametrize("mode", ["settled", "unsettled"])
def test_a_settle_mode_that_the_broker_does_not_agree_to_promises_nothing(mode: str) -> None:
    names, target, link = amqp_combinations, MagicMock(), MagicMock()
    row = {name: mode if name == names.SETTLES else None for name in names.SPECIFIED.fields}
    link.answer.get.return_value = names.MODES["mixed"]
    sentences = names.Sentences("arrives", settled="settled", unsettled="unsettled")
    names.Play(target, row, sentences)._judge_settlement(link, [])
    target.record_finding.assert_not_called()
    assert target.record_not_applicable.call_args.args[0] == mode


def test_a_body_that_was_not_sent_is_a_failed_control(monkeypatch: pytest.MonkeyPatch) -> None:
    names, target = amqp_combinations, MagicMock()
    target.control.side_effect = lambda holds, detail: holds or pytest.fail(detail)
    monkeypatch.setattr(names, "bodies", lambda deliveries: deliveries)
    play = names.Play(target, dict.fromkeys(names.SPECIFIED.fields), names.Sentences("arrives"))
    assert play._numbers([b"7 .."]) == [7]  # type: ignore[list-item]
    with pytest.raises(pytest.fail.Exception, match="1 of 2 bodies lack their number"):
        play._numbers([b"7 ..", b"...."])  # type: ignore[list-item]


def test_the_page_has_the_coverage_of_each_table() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "reference" / "combinations.md"
    if not page.is_file():
        pytest.skip("no checkout: the wheel has no docs")
    printed = [row for row in page.read_text("utf-8").splitlines() if row.startswith("| ")][2:]
    assert printed == [line(table) for table in TABLES]


def line(table: Table) -> str:
    rows, pairs = table.rows(), len(table.pairs())
    numbers = (len(table.fields), pairs, len(rows))
    return f"| {table.frames} | {' | '.join(map(str, numbers))} |"
