"""Which case cites which requirement, and the list that may only shrink."""

from pathlib import Path

import pytest

from brokerproof.harness.catalogue import coverage, requirements
from brokerproof.harness.catalogue.requirements import Catalogue
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.suites.units.harness.catalogue.test_requirements import DOCUMENT, ENTRY, write


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    """01 and 02 need a case; 03 is a SHOULD; 04 is a duty of clients."""
    client = ENTRY.replace('"both"', '"client"').replace(
        "testable = true", 'testable = false\nwhy_not = "Not ours."'
    )
    return requirements.load(
        write(
            tmp_path,
            DOCUMENT
            + ENTRY
            + ENTRY.replace("-01", "-02")
            + ENTRY.replace("-01", "-03").replace('"MUST"', '"SHOULD"')
            + client.replace("-01", "-04"),
        )
    )


def test_coverage_names_the_citing_cases_in_order(catalogue: Catalogue) -> None:
    cases = {
        "b": ["FOO3-FRAME-02", "FOO3-FRAME-02"],
        "a": ["FOO3-FRAME-02", "FOO3-FRAME-03", "NO-1"],
    }
    assert coverage.coverage(catalogue, cases) == {
        "FOO3-FRAME-01": (),
        "FOO3-FRAME-02": ("b", "a"),
        "FOO3-FRAME-03": ("a",),
        "FOO3-FRAME-04": (),
    }


def test_uncovered_are_those_that_owe_a_case_and_have_none(catalogue: Catalogue) -> None:
    expected = ["FOO3-FRAME-01", "FOO3-FRAME-02"]
    assert [requirement.id for requirement in coverage.uncovered(catalogue, {})] == expected
    assert [
        requirement.id for requirement in coverage.uncovered(catalogue, {"a": ["FOO3-FRAME-01"]})
    ] == ["FOO3-FRAME-02"]


def test_unknown_and_untestable_citations_are_told(catalogue: Catalogue) -> None:
    found = coverage.unknown(
        catalogue, {"a": ["FOO3-FRAME-01"], "b": ["FOO3-FRAM-01", "FOO3-FRAME-04"]}
    )
    assert len(found) == 2
    assert found[0].startswith("b cites FOO3-FRAM-01, but no requirement has the id")
    assert found[1] == "b cites FOO3-FRAME-04, which the catalogue calls untestable: Not ours."


def test_the_list_and_the_cases_agree_when_every_gap_has_a_reason(catalogue: Catalogue) -> None:
    listed = {"FOO3-FRAME-01": "later"}
    assert coverage.disagreements(catalogue, {"a": ["FOO3-FRAME-02"]}, listed) == ([], [])


def test_a_new_gap_is_missing_in_the_list(catalogue: Catalogue) -> None:
    expected = (["FOO3-FRAME-02"], [])
    assert coverage.disagreements(catalogue, {}, {"FOO3-FRAME-01": "later"}) == expected


def test_what_gained_a_case_or_owes_none_leaves_the_list(catalogue: Catalogue) -> None:
    listed = {"FOO3-FRAME-01": "x", "FOO3-FRAME-03": "x", "FOO3-FRAME-99": "x"}
    missing, surplus = coverage.disagreements(
        catalogue, {"a": ["FOO3-FRAME-01", "FOO3-FRAME-02"]}, listed
    )
    assert missing == []
    assert surplus == [
        "FOO3-FRAME-01: is now cited by a",
        "FOO3-FRAME-03: owes no case (not a testable MUST or DOC that binds the server)",
        "FOO3-FRAME-99: the catalogue has no such requirement",
    ]


def test_the_rewritten_list_is_read_back(catalogue: Catalogue, tmp_path: Path) -> None:
    reasons = {
        "FOO3-FRAME-01": 'needs a "peer"',
        "FOO3-FRAME-02": r"a \ in it",
        "FOO3-FRAME-03": "not owed",
    }
    path = tmp_path / "uncovered.toml"
    path.write_text(coverage.rewritten(catalogue, {}, reasons))
    del reasons["FOO3-FRAME-03"]
    assert coverage.load_listed(path) == reasons
    # The list is in the same folder but is not a document.
    assert len(requirements.load(tmp_path)) == 4


def test_a_gap_without_a_reason_is_not_written(catalogue: Catalogue) -> None:
    with pytest.raises(KeyError, match="FOO3-FRAME-02"):
        coverage.rewritten(catalogue, {}, {"FOO3-FRAME-01": "later"})


def test_a_missing_list_is_an_empty_one(tmp_path: Path) -> None:
    assert coverage.load_listed(tmp_path / "uncovered.toml") == {}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[[uncovered]]\nid = "A-1"', "line 1: A-1: reason is missing"),
        ('[[uncovered]]\nid = "A-1"\nreason = ""', "line 1: A-1: reason is empty"),
        ('[[uncovered]]\nid = "A-1"\nreason = "x"\n' * 2, "line 4: A-1 is listed twice"),
        ("[uncovered]\nid = 1", "uncovered should be an array of tables"),
    ],
)
def test_a_wrong_list_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "uncovered.toml"
    path.write_text(text)
    with pytest.raises(BadData, match=sentence):
        coverage.load_listed(path)
