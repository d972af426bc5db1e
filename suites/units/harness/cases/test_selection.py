"""A selection of cases: by id, words, requirement and area, with exclusions."""

import pytest

from brokerproof.harness.cases.case_index import IndexedCase
from brokerproof.harness.cases.selection import BadSelection, Selection


def case(id: str, *requirements: str) -> IndexedCase:
    name = id.partition("[")[0]
    function = f"test_{name.rpartition('.')[2]}"
    source = f"suites/stomp/test_{name.split('.')[1]}.py:7"
    return IndexedCase(id, name, "stomp", function, None, requirements, (), "", source)


RECEIPT = case("stomp.receipts.it_is_answered[1.2]", "STOMP12-RCPT-01")
RECEIPT_AT_ONCE = case("stomp.receipts.it_is_answered_at_once[1.2]", "STOMP12-RCPT-01")
BEATS = case("stomp.heart_beats.it_beats[1.1-a (b) or c = 'd']", "STOMP11-HB-01")
ALL = [RECEIPT, RECEIPT_AT_ONCE, BEATS]


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        (Selection(), ALL),
        (Selection(cases=(RECEIPT.id,)), [RECEIPT]),
        (Selection(cases=(RECEIPT.id, BEATS.id)), [RECEIPT, BEATS]),
        (Selection(cases=("answered_at_once", "it_beats")), [RECEIPT_AT_ONCE, BEATS]),
        (Selection(cases=("Receipts and not (at_once or nothing)",)), [RECEIPT]),
        (Selection(cases=("test_it_beats",)), [BEATS]),
        (Selection(cases=("receipts",), exclude=(RECEIPT.name,)), [RECEIPT_AT_ONCE]),
        (Selection(cases=("stomp.receipts",)), [RECEIPT, RECEIPT_AT_ONCE]),
        (Selection(requirements=("stomp12-rcpt-01",)), [RECEIPT, RECEIPT_AT_ONCE]),
        (Selection(requirements=("STOMP12-RCPT", "STOMP11-H")), [RECEIPT, RECEIPT_AT_ONCE]),
        (Selection(areas=("heartbeat",)), [BEATS]),
        (Selection(areas=("heartbeat",), cases=("receipts",)), []),
        (Selection(exclude=("receipts",)), [BEATS]),
    ],
)
def test_a_selection_has_these_cases(selection: Selection, chosen: list[IndexedCase]) -> None:
    assert [case for case in ALL if selection.chooses(case)] == chosen


def test_a_name_selects_that_case_and_not_those_that_begin_with_it() -> None:
    by_name = Selection(cases=(RECEIPT.name,))
    assert [case for case in ALL if by_name.chooses(case)] == [RECEIPT]


def test_words_that_are_no_expression_are_refused() -> None:
    with pytest.raises(BadSelection, match="'receipts and' is not an expression"):
        Selection(cases=("receipts and",)).chooses(RECEIPT)
    with pytest.raises(BadSelection):
        Selection(exclude=("__import__('os').abort() x",)).chooses(RECEIPT)


def test_what_selects_nothing_is_reported() -> None:
    selection = Selection(
        cases=("receipts", "recieved"), exclude=("tls",), requirements=("STOMP12-HB-99",)
    )
    assert list(selection.unused(ALL)) == ["recieved", "tls", "STOMP12-HB-99"]
