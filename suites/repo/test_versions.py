"""A rule of several STOMP versions, or of several documents, is judged for each of them.

Rules of two documents count as the same if their statements or quotations are similar. If a case
judges only one of them, :data:`LEFT` gives the reason.
"""

from difflib import SequenceMatcher
from functools import cache
from itertools import combinations, groupby

import pytest

from brokerproof.harness.cases.case import registry
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.catalogue.cases import import_suites
from brokerproof.harness.catalogue.requirements import Requirement

CATALOGUE = requirements.load()
SIMILAR = 0.75
LEFT: dict[tuple[str, str], str] = {}


@cache
def _words(text: str | None) -> list[str]:
    return "".join(sign if sign.isalnum() else " " for sign in (text or "").lower()).split()


def _similarity(one: list[str], other: list[str]) -> float:
    if not one or not other or len(set(one) & set(other)) < SIMILAR * len(set(one)) / 2:
        return 0
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def _twin(row: Requirement, others: list[Requirement]) -> Requirement | None:
    """Return the row that is most similar to ``row`` in its statement or its quotation."""

    def likeness(other: Requirement) -> float:
        return max(
            _similarity(_words(row.statement), _words(other.statement)),
            _similarity(_words(row.quotation), _words(other.quotation)),
        )

    best = max(others, key=likeness)
    return best if likeness(best) >= SIMILAR else None


def _judged_in_one() -> set[tuple[str, str]]:
    cited = {
        id
        for case in registry().values()
        if ".units." not in case.function.__module__  # tests of the registry leave cases in it
        for ids in case.by_version.values()
        for id in ids
    }
    found = set()
    documents = [
        list(rows) for _, rows in groupby(CATALOGUE.values(), lambda row: row.document.source)
    ]
    for one, other in combinations(documents, 2):
        for row in one:
            twin = _twin(row, other)
            if twin is not None and (row.id in cited) != (twin.id in cited):
                found.add((row.id, twin.id))
    return found


def test_a_rule_of_several_documents_is_judged_for_each() -> None:
    import_suites()
    found = _judged_in_one()
    assert not found - LEFT.keys(), (
        f"{sorted(found - LEFT.keys())}: cite the other document's row too, of another version as a"
        " parameter of the case ({version: requirement}), or say in LEFT why it is not judged"
    )
    assert not LEFT.keys() - found, "these are judged in both now"


@pytest.mark.parametrize(
    ("earlier", "later"),
    [("STOMP11-HB-06", "STOMP12-HB-06"), ("STOMP11-REPEAT-02", "STOMP12-REPEAT-02")],
)
def test_the_row_of_another_version_is_found(earlier: str, later: str) -> None:
    rows = [row for row in CATALOGUE.values() if row.document.source == "STOMP 1.2"]
    twin = _twin(CATALOGUE[earlier], rows)
    assert twin is not None
    assert twin.id == later
