"""The catalogue's loader: accepted input, and the error messages for everything else."""

from pathlib import Path

import pytest

from brokerproof.harness.catalogue import release_ranges, requirements
from brokerproof.harness.catalogue.requirements import UnknownRequirement
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.model.verdicts import Impact, Level
from brokerproof.suites.units.drivers import toml_tables

TABLES = toml_tables.beside(__file__)

DOCUMENT = """
[document]
source = "FOO 3"
version = "3"
prefix = "FOO3"
title = "The FOO protocol"
url = "https://example.org/foo"
[document.anchors]
"Frames" = "frames"
"Intro" = ""
"""

ENTRY = """
[[requirement]]
id = "FOO3-FRAME-01"
section = "Frames"
level = "MUST"
verb = "is"
subject = "both"
observe = "wire"
testable = true
statement = "A frame ends."
"""


def write(folder: Path, text: str, name: str = "foo3.toml") -> Path:
    (folder / name).write_text(text)
    return folder


def test_a_requirement_knows_its_document(tmp_path: Path) -> None:
    found = requirements.load(write(tmp_path, DOCUMENT + ENTRY)).find("FOO3-FRAME-01")
    assert found.source == "FOO 3"
    assert found.version == "3"
    assert found.profile is None
    assert found.level == Level.MUST
    assert found.link == "https://example.org/foo#frames"
    assert found.where.endswith("foo3.toml, line 12")


def test_a_heading_is_the_title_or_else_the_statement(tmp_path: Path) -> None:
    headed = ENTRY.replace("-01", "-02") + 'title = "A frame has an end"\nimpact = "stall"\n'
    loaded = requirements.load(write(tmp_path, DOCUMENT + ENTRY + headed))
    for catalogue in (loaded, requirements.Catalogue.from_json(loaded.to_json())):
        assert [(row.heading, row.impact) for row in catalogue.values()] == [
            ("A frame ends.", None),
            ("A frame has an end", Impact.STALL),
        ]


def test_a_section_without_an_anchor_of_its_own_links_to_the_document(tmp_path: Path) -> None:
    text = DOCUMENT + ENTRY.replace('"Frames"', '"Intro"')
    found = requirements.load(write(tmp_path, text)).find("FOO3-FRAME-01").link
    assert found == "https://example.org/foo"


def test_a_document_in_several_files_links_to_the_file_of_the_section(tmp_path: Path) -> None:
    text = DOCUMENT.replace('/foo"', '/foo/"').replace('"frames"', '"part-2.html#frames"') + ENTRY
    found = requirements.load(write(tmp_path, text)).find("FOO3-FRAME-01")
    assert found.link == "https://example.org/foo/part-2.html#frames"


def test_an_unknown_id_is_answered_with_near_ones(tmp_path: Path) -> None:
    catalogue = requirements.load(write(tmp_path, DOCUMENT + ENTRY))
    with pytest.raises(UnknownRequirement) as caught:
        catalogue.find("foo3-frame-1")
    found = str(caught.value)
    assert found == "no requirement has the id 'foo3-frame-1'; did you mean FOO3-FRAME-01?"
    with pytest.raises(UnknownRequirement, match="brokerproof requirements shows every id"):
        catalogue.find("qqq")


@pytest.mark.parametrize(("before", "after", "sentence"), TABLES["entries"])
def test_a_wrong_entry_is_refused_with_its_line_and_id(
    tmp_path: Path, before: str, after: str, sentence: str
) -> None:
    assert before in ENTRY
    with pytest.raises(BadData) as caught:
        requirements.load(write(tmp_path, DOCUMENT + ENTRY.replace(before, after)))
    assert sentence in str(caught.value)
    assert "foo3.toml, line 12: FOO" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_line_is_that_of_the_entry_and_not_of_the_first(tmp_path: Path) -> None:
    second = ENTRY.replace("-01", "-02").replace('"MUST"', '"MOST"')
    with pytest.raises(BadData, match="line 22: FOO3-FRAME-02: level is 'MOST'"):
        requirements.load(write(tmp_path, DOCUMENT + ENTRY + second))


def test_an_id_stands_once(tmp_path: Path) -> None:
    with pytest.raises(
        BadData, match=r"line 22: FOO3-FRAME-01 is already defined at .*foo3\.toml, line 12"
    ):
        requirements.load(write(tmp_path, DOCUMENT + ENTRY + ENTRY))


def test_two_documents_have_two_prefixes(tmp_path: Path) -> None:
    write(tmp_path, DOCUMENT + ENTRY)
    with pytest.raises(BadData, match=r"prefix 'FOO3' is already used by foo3\.toml"):
        requirements.load(write(tmp_path, DOCUMENT, "goo.toml"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[document", "is not TOML"),
        (ENTRY, r"\[document\] is missing"),
        (DOCUMENT.replace('title = "The FOO protocol"', ""), r"\[document\]: title is missing"),
        (
            DOCUMENT.replace('"" ', "").replace('= "frames"', "= 7"),
            "the anchor of section 'Frames' is ",
        ),
        ('wish = "more"\n' + DOCUMENT, "unknown key 'wish'; this file has document, requirement"),
        ("requirement = 3\n" + DOCUMENT, "requirement should be an array of tables"),
    ],
)
def test_a_file_that_is_no_document_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(BadData, match=sentence):
        requirements.load(write(tmp_path, text))


def test_an_empty_folder_is_no_catalogue(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="holds no requirement files"):
        requirements.load(tmp_path)


def test_the_releases_of_a_row_are_a_range(tmp_path: Path) -> None:
    vendor = DOCUMENT.replace("title", 'profile = "bar"\ntitle')
    row = ENTRY.replace('"MUST"', '"DOC"\nreleases = "since 2.34"')
    with pytest.raises(BadData, match=r'releases is .since 2.34.; it should look like ">=2.34"'):
        requirements.load(write(tmp_path, vendor + row))


@pytest.mark.parametrize(
    ("versions", "broker", "inside"),
    [
        (">=2.34", "2.34.0", True),
        (">=2.34", "2.33.9", False),
        (">=2.34", "Artemis 2.56.0", True),
        ("<2.34", "", False),
        ("", "", True),
        ("", "unknown", True),
    ],
)
def test_a_release_is_in_a_range_by_its_number(versions: str, broker: str, inside: bool) -> None:
    assert release_ranges.in_range(versions, broker) is inside


def test_owed_are_testable_musts_and_documented_behaviour(tmp_path: Path) -> None:
    text = DOCUMENT + ENTRY
    text += ENTRY.replace("-01", "-02").replace('"MUST"', '"SHOULD"')
    text += ENTRY.replace("-01", "-03").replace(
        "testable = true", 'testable = false\nwhy_not = "It does not show."'
    )
    vendor = DOCUMENT.replace("FOO3", "BAR").replace("title", 'profile = "bar"\ntitle')
    write(tmp_path, vendor + ENTRY.replace("FOO3", "BAR").replace('"MUST"', '"DOC"'), "bar.toml")
    catalogue = requirements.load(write(tmp_path, text))
    expected = ["BAR-FRAME-01", "FOO3-FRAME-01"]
    assert [requirement.id for requirement in catalogue.values() if requirement.owed] == expected
    assert catalogue["BAR-FRAME-01"].profile == "bar"
