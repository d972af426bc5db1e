"""Known deviations: what an entry covers, and the error message for a wrong one."""

from pathlib import Path

import pytest

from brokerproof.harness.catalogue import deviations
from brokerproof.harness.catalogue.deviations import Deviation
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.suites.units.drivers import toml_tables

TABLES = toml_tables.beside(__file__)

ENTRY = """# a list
[[deviation]]
requirement = "STOMP12-ENC-10"
case = "stomp.headers.blanks_stay[1.?]"
versions = ">=2.6, <2.60"
expected = "(x|y) came without its blanks"
example = "x came without its blanks"
reason = "Values are trimmed."
link = "https://example.org/1"
"""
CASE = "stomp.headers.blanks_stay[1.2]"


def entries(folder: Path, text: str = ENTRY) -> list[Deviation]:
    path = folder / "known_deviations.toml"
    path.write_text(text)
    return deviations.load(path)


def found(folder: Path, text: str = ENTRY, **other: str) -> bool:
    asked = {
        "case": CASE,
        "requirement": "STOMP12-ENC-10",
        "detail": "x came without its blanks",
        "version": "2.56.0",
    }
    asked |= other
    listed = entries(folder, text)
    return (
        deviations.match(
            listed, asked["case"], asked["requirement"], asked["detail"], asked["version"]
        )
        is not None
    )


def test_an_entry_matches_what_it_names(tmp_path: Path) -> None:
    assert found(tmp_path)
    (entry,) = entries(tmp_path)
    assert entry.name == "STOMP12-ENC-10 in stomp.headers.blanks_stay[1.?]"
    assert entry.where.endswith("known_deviations.toml, line 2")


def test_a_brokers_words_in_a_finding_may_have_several_lines(tmp_path: Path) -> None:
    text = ENTRY.replace("without its blanks", "without.*, should keep them")
    assert found(tmp_path, text, detail="x came without\nits\nblanks, should keep them")


@pytest.mark.parametrize(
    "other",
    [
        {"requirement": "STOMP11-ENC-09"},
        {"case": "stomp.headers.blanks_stay"},
        {"case": "stomp.headers.blanks_stay[2.2]"},
        {"case": "stomp.headers.blanks_stay[1.2]x"},
        {"detail": "the connection was closed"},
        {"detail": "x came without its blanks, and the connection ended"},
        {"version": "2.60.0"},
        {"version": "2.5.9"},
        {"version": "unknown"},
    ],
)
def test_an_entry_matches_nothing_else(tmp_path: Path, other: dict[str, str]) -> None:
    assert not found(tmp_path, **other)


@pytest.mark.parametrize(
    "version", ["2.6", "2.59.99", "2.57.0-SNAPSHOT", "ActiveMQ-Artemis/2.56.0"]
)
def test_versions_are_compared_by_their_numbers(tmp_path: Path, version: str) -> None:
    assert found(tmp_path, version=version)


def test_brackets_of_a_case_are_themselves_and_a_star_is_any_text(tmp_path: Path) -> None:
    exact = ENTRY.replace("[1.?]", "[1.2]")
    assert found(tmp_path, exact)
    assert not found(tmp_path, exact, case="stomp.headers.blanks_stay1")
    assert found(tmp_path, ENTRY.replace("blanks_stay[1.?]", "*"))


def test_without_versions_every_version_is_covered_even_an_unknown_one(tmp_path: Path) -> None:
    assert found(tmp_path, ENTRY.replace('versions = ">=2.6, <2.60"', ""), version="unknown")


def test_without_a_case_every_case_is_covered(tmp_path: Path) -> None:
    text = ENTRY.replace('case = "stomp.headers.blanks_stay[1.?]"', "")
    assert found(tmp_path, text, case="flow.other")
    assert not found(tmp_path, text, requirement="STOMP12-ENC-09")


def test_covering_does_not_ask_what_was_found(tmp_path: Path) -> None:
    (entry,) = entries(tmp_path)
    assert deviations.covers(entry, CASE, "STOMP12-ENC-10", "2.56.0")
    assert not deviations.covers(entry, CASE, "STOMP12-ENC-10", "2.99")


def test_the_first_of_several_wins(tmp_path: Path) -> None:
    listed = entries(tmp_path, ENTRY + ENTRY.replace("Values are trimmed.", "second"))
    first = deviations.match(listed, CASE, "STOMP12-ENC-10", "x came without its blanks", "2.56.0")
    assert first is listed[0]


@pytest.mark.parametrize(("before", "after", "sentence"), TABLES["entries"])
def test_a_wrong_entry_is_refused_with_its_line(
    tmp_path: Path, before: str, after: str, sentence: str
) -> None:
    assert before in ENTRY
    with pytest.raises(BadData) as caught:
        entries(tmp_path, ENTRY.replace(before, after))
    assert sentence in str(caught.value)
    assert "known_deviations.toml, line 2: " in str(caught.value)


def test_an_entry_speaks_of_each_of_its_requirements(tmp_path: Path) -> None:
    text = ENTRY.replace("STOMP12-ENC-10", "STOMP11-ENC-09, STOMP12-ENC-10")
    expected = ["STOMP11-ENC-09", "STOMP12-ENC-10"]
    assert [entry.requirement for entry in entries(tmp_path, text)] == expected
    held = [(CASE, "STOMP11-ENC-09", True), (CASE, "STOMP12-ENC-10", False)]
    listed = entries(tmp_path, text)
    assert deviations.not_shown(listed, held, "2.56.0") == listed[:1]


def test_an_entry_about_a_control_names_a_case_alone(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="line 2: a control needs a case and no requirement"):
        entries(tmp_path, ENTRY + "control = true\n")


def test_a_case_that_a_broker_does_not_survive_is_known_by_version(tmp_path: Path) -> None:
    listed = entries(tmp_path, ENTRY + "harm = true\n")
    assert deviations.does_harm(listed, CASE, "2.56.0")
    assert not deviations.does_harm(listed, CASE, "2.5.0")
    assert not deviations.does_harm(listed, "stomp.headers.others", "2.56.0")
    assert not deviations.does_harm(entries(tmp_path), CASE, "2.56.0")


def test_harm_speaks_of_a_case(tmp_path: Path) -> None:
    lines = [line for line in ENTRY.splitlines() if not line.startswith("case")]
    with pytest.raises(BadData, match="line 2: harm needs a case"):
        entries(tmp_path, "\n".join([*lines, "harm = true"]))


def test_a_missing_list_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"known_deviations\.toml: cannot be read"):
        deviations.load(tmp_path / "known_deviations.toml")


@pytest.mark.parametrize(
    ("held", "shown"), [([True], False), ([True, False], True), ([False], True), ([], True)]
)
def test_an_entry_that_no_longer_shows_is_told(
    tmp_path: Path, held: list[bool], shown: bool
) -> None:
    findings = [(CASE, "STOMP12-ENC-10", finding) for finding in held]
    assert bool(deviations.not_shown(entries(tmp_path), findings, "2.56.0")) is not shown
    assert deviations.not_shown(entries(tmp_path), findings, "2.60.0") == []
    assert (
        deviations.not_shown(entries(tmp_path, ENTRY + "sometimes = true\n"), findings, "2.56.0")
        == []
    )


def test_an_entry_for_one_target_is_left_out_for_others(tmp_path: Path) -> None:
    path = tmp_path / "known_deviations.toml"
    path.write_text(ENTRY + 'target = "proton-python"\n')
    expected = ["proton-python"]
    assert [deviation.target for deviation in deviations.load(path, "proton-python")] == expected
    assert deviations.load(path, "proton-c") == []
    assert len(deviations.load(path)) == 1
    path.write_text(ENTRY)
    assert len(deviations.load(path, "proton-c")) == 1
