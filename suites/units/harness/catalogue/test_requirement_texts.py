"""Output of ``list`` and ``explain``."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from brokerproof.harness.catalogue import cases, requirements
from brokerproof.harness.catalogue import requirement_texts as texts
from brokerproof.harness.catalogue.cases import CaseInfo
from brokerproof.harness.catalogue.requirements import UnknownRequirement

CATALOGUE = requirements.load()


def made(name: str, by_version: dict[str | None, tuple[str, ...]], doc: str = "") -> CaseInfo:
    registered = SimpleNamespace(
        name=name,
        suite="stomp",
        by_version=by_version,
        needs=frozenset({"nack"}),
        doc=doc,
        source="suites/stomp/test_x.py:7",
        function=SimpleNamespace(__qualname__="test_x"),
    )
    return cases.describe([registered])[name]  # type: ignore[list-item]


CASES = {
    "stomp.x": made(
        "stomp.x",
        {"1.1": ("STOMP11-HB-07",), "1.2": ("STOMP12-HB-07",)},
        "The server beats.\n\nAnd more.",
    ),
    "stomp.y": made("stomp.y", {None: ("STOMP12-HB-07", "STOMP12-HB-09")}),
}


def test_a_case_is_described_across_its_versions() -> None:
    assert CASES["stomp.x"].requirements == ("STOMP11-HB-07", "STOMP12-HB-07")
    assert CASES["stomp.x"].versions == ("1.1", "1.2")
    assert CASES["stomp.x"].summary == "The server beats."
    wrapped = replace(CASES["stomp.x"], doc="The server beats\nonce a second.\n\nMore of it.")
    assert wrapped.summary == "The server beats once a second."
    assert CASES["stomp.y"].versions == ()


@pytest.mark.parametrize(
    "name",
    ["stomp12", "STOMP 1.2", "stomp12.toml", "STOMP12", "fixtures/requirements/stomp12.toml"],
)
def test_a_source_goes_by_its_file_its_name_or_its_prefix(name: str) -> None:
    found = texts.rows(CATALOGUE, CASES, source=name)
    assert {row.requirement.document.name for row in found} == {"stomp12"}
    assert len(found) > 100


def test_a_group_of_documents_goes_by_its_name() -> None:
    found = texts.rows(CATALOGUE, CASES, source="seeds")
    assert {"artemis-stomp", "artemis-flow", "artemis-paging"} <= {
        row.requirement.document.name for row in found
    }
    assert all(row.requirement.document.group == "seeds" for row in found)


def test_what_has_no_case_says_why() -> None:
    listed = {"STOMP12-HB-10": "A reason of its own.", "STOMP12-HB-07": "Out of date."}
    found = texts.rows(CATALOGUE, CASES, listed, source="stomp12")
    text = texts.rows_text(found, 200)
    assert "no case: A reason of its own." in text
    assert "Out of date." not in text
    untestable = next(row for row in found if row.coverage == "untestable")
    assert f"no case: {untestable.requirement.why_not}"[:60] in text
    by_id = {row["id"]: row["uncovered_reason"] for row in texts.rows_json(found)}
    assert (by_id["STOMP12-HB-10"], by_id["STOMP12-HB-12"]) == ("A reason of its own.", None)


def test_an_unknown_source_is_answered_with_those_there_are() -> None:
    with pytest.raises(
        texts.UnknownSource, match=r"no document is called 'stomp13'; did you mean 'stomp1\d'\?"
    ):
        texts.rows(CATALOGUE, CASES, source="stomp13")
    with pytest.raises(
        texts.UnknownSource, match=r"the documents are .*artemis-.*STOMP chapter.*seeds for all"
    ):
        texts.rows(CATALOGUE, CASES, source="mqtt")


def test_coverage_has_four_kinds() -> None:
    kinds = {row.requirement.id: row.coverage for row in texts.rows(CATALOGUE, CASES)}
    assert kinds["STOMP12-HB-07"] == "covered"
    assert kinds["STOMP12-HB-10"] == "uncovered"
    assert kinds["STOMP12-HB-12"] == "optional"
    assert kinds["STOMP12-CONNECT-08"] == "untestable"


def test_uncovered_keeps_what_owes_a_case() -> None:
    found = texts.rows(CATALOGUE, CASES, source="stomp12", uncovered=True)
    ids = [row.requirement.id for row in found]
    assert "STOMP12-HB-10" in ids
    assert not {"STOMP12-HB-07", "STOMP12-HB-12", "STOMP12-CONNECT-06"} & set(ids)


def test_json_says_what_the_text_says() -> None:
    found = texts.rows(CATALOGUE, CASES, source="stomp12")
    data = json.loads(json.dumps(texts.rows_json(found)))
    text = texts.rows_text(found)
    assert [fact["id"] for fact in data] == [row.requirement.id for row in found]
    expected = ["stomp.x", "stomp.y"]
    assert next(fact["cases"] for fact in data if fact["id"] == "STOMP12-HB-07") == expected
    assert all(fact["id"] in text for fact in data)
    assert text.count("· stomp.") == 3
    assert text.rstrip().endswith("untestable")


def test_lines_keep_their_width_and_nothing_gets_an_empty_page() -> None:
    assert max(map(len, texts.rows_text(texts.rows(CATALOGUE, CASES), 80).splitlines())) <= 80
    assert texts.rows_text([]) == "no requirement fits\n"
    for requirement in CATALOGUE:
        text = texts.explanation_text(texts.explanation(CATALOGUE, CASES, requirement), 80)
        wide = [line for line in text.splitlines() if len(line) > 80 and "https://" not in line]
        assert not wide


def test_explain_has_the_statement_its_source_the_cases_and_how_to_contest() -> None:
    facts = texts.explanation(CATALOGUE, CASES, "stomp12-hb-07")
    text = texts.explanation_text(facts)
    assert facts["link"] == "https://stomp.github.io/stomp-specification-1.2.html#Heart-beating"
    assert [case["id"] for case in facts["cases"]] == ["stomp.x", "stomp.y"]
    assert facts["cases"][0]["says"] == "The server beats."
    for part in (
        facts["link"],
        "section 'Heart-beating'",
        "level MUST",
        "The server beats.",
        "suites/stomp/test_x.py:7",
    ):
        assert part in text
    assert "To contest it" in text
    json.dumps(facts)


def test_explain_says_why_there_is_no_case() -> None:
    text = texts.explanation_text(texts.explanation(CATALOGUE, {}, "STOMP12-CLIENT-01"))
    assert "Not tested: The permission has no bound" in text
    listed = {"ARTEMIS-STOMP-ws-1": "No WebSocket peer yet."}
    text = texts.explanation_text(texts.explanation(CATALOGUE, {}, "ARTEMIS-STOMP-ws-1", listed))
    assert "Listed as uncovered: No WebSocket peer yet." in text
    assert "the vendor's documentation" in text
    assert "those of profile artemis" in text


def test_explain_of_an_unknown_id_is_a_sentence() -> None:
    with pytest.raises(UnknownRequirement, match="did you mean"):
        texts.explanation(CATALOGUE, CASES, "STOMP12-HB-7")


@pytest.mark.parametrize(
    ("name", "required"),
    [
        (
            "AMQP10-CREDIT-04",
            "If a receiver's flow has no delivery-count, the sender uses its own"
            " initial-delivery-count instead. “the Sender MUST assume that the delivery-count”",
        ),
        ("STOMP12-SEND-02", f"“{CATALOGUE['STOMP12-SEND-02'].quotation}”"),
    ],
)
def test_a_part_of_a_sentence_stands_behind_our_words(name: str, required: str) -> None:
    assert CATALOGUE[name].required == required
