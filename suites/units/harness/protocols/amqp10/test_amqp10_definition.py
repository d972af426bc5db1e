"""The machine-readable definition of AMQP 1.0: how it is extracted, and that the requirement
catalogue agrees with it."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.catalogue import requirements
from brokerproof.suites.repo import extract_amqp10

JSON = Path(str(files("brokerproof.fixtures"))) / "vectors" / "amqp10-definition.json"
INSTALLED = Path("/usr/share/amqp/specs/1-0")
CATALOGUE = {
    requirement.id: requirement
    for requirement in requirements.load().values()
    if requirement.document.name == "amqp10"
}

TINY = """<?xml version="1.0"?>
<!--
Copyright Somebody
2011.

Keep this.
-->
<amqp name="{name}" xmlns="http://www.amqp.org/schema/amqp.xsd">{body}</amqp>
"""
BODIES = {
    "types": (
        '<section name="encodings"><type name="ubyte" class="primitive"><encoding code="0x50"'
        ' category="fixed" width="1"/></type><type name="uint" class="primitive"><encoding'
        ' name="uint0" code="0x43" category="fixed" width="0"/></type></section>'
    ),
    "transport": (
        '<section name="definitions"><type name="mode" class="restricted" source="ubyte"><choice'
        ' name="mixed" value="2"/></type><type name="number" class="restricted"'
        ' source="serial"/><type name="serial" class="restricted" source="uint"/><type name="thing"'
        ' class="composite" source="list" provides="frame, section"><descriptor'
        ' name="amqp:thing:list" code="0x00000001:0x00000010"/><field name="mode" type="mode"'
        ' default="mixed"/><field name="first" type="number" mandatory="true" default="7"/><field'
        ' name="words" type="symbol" multiple="true" requires="a"/><field name="on" type="boolean"'
        ' default="false"/></type><definition name="PORT" value="5672"/></section>'
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in extract_amqp10.DOCUMENTS:
        (tmp_path / f"{name}.bare.xml").write_text(
            TINY.format(name=name, body=BODIES.get(name, ""))
        )
    return tmp_path


@pytest.fixture(scope="module")
def definition() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(JSON.read_text("utf-8"))
    return found


def field(definition: dict[str, Any], type_name: str, name: str) -> dict[str, Any]:
    return next(
        field for field in definition["types"][type_name]["fields"] if field["name"] == name
    )


def mandatory(definition: dict[str, Any], type_name: str) -> set[str]:
    return {
        field["name"] for field in definition["types"][type_name]["fields"] if field["mandatory"]
    }


def choices(definition: dict[str, Any], type_name: str) -> dict[str, Any]:
    return {choice["name"]: choice["value"] for choice in definition["types"][type_name]["choices"]}


def test_a_composite_is_extracted_whole(folder: Path) -> None:
    found: Any = json.loads(extract_amqp10.text(folder))
    thing = found["types"]["thing"]
    assert thing["descriptor"] == {"name": "amqp:thing:list", "code": 0x1_0000_0010}
    assert thing["provides"] == ["frame", "section"]
    assert [
        (field["name"], field["default"], field["default_value"]) for field in thing["fields"]
    ] == [
        ("mode", "mixed", 2),
        ("first", "7", 7),
        ("words", None, None),
        ("on", "false", False),
    ]
    assert [
        (field["mandatory"], field["multiple"], field["requires"]) for field in thing["fields"]
    ] == [(False, False, []), (True, False, []), (False, True, ["a"]), (False, False, [])]
    assert found["types"]["ubyte"]["encodings"] == [
        {"name": "ubyte", "code": 0x50, "category": "fixed", "width": 1}
    ]
    assert found["types"]["mode"]["choices"] == [{"name": "mixed", "value": 2}]
    assert found["constants"] == {"PORT": 5672}
    assert found["notice"] == ["Copyright Somebody 2011.", "Keep this."]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            None,
            r"transport\.bare\.xml: No such file or directory; Debian's package amqp-specs has it",
        ),
        ("<amqp", r"transport\.bare\.xml: is not XML: "),
        (
            "<html/>",
            (
                r"transport\.bare\.xml: its first element is html; the definition begins with"
                r" \{.*\}amqp"
            ),
        ),
        (
            TINY.format(name="x", body='<section name="a"><type class="b"/></section>'),
            "lacks or spoils .* 'name'",
        ),
        (
            TINY.format(
                name="x", body='<section name="a"><definition name="N" value="y"/></section>'
            ),
            "lacks or spoils",
        ),
    ],
)
def test_what_is_no_definition_is_refused_in_a_sentence(
    folder: Path, content: str | None, problem: str
) -> None:
    path = folder / "transport.bare.xml"
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(extract_amqp10.BadDefinition, match=problem):
        extract_amqp10.extract(folder)


def test_the_command_answers_a_wrong_folder_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert extract_amqp10.main([str(tmp_path)]) == 4
    assert extract_amqp10.main([]) == 4
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.skipif(not INSTALLED.exists(), reason="Debian's package amqp-specs is not installed")
def test_the_committed_extract_is_that_of_the_definition() -> None:
    assert extract_amqp10.text(INSTALLED) == JSON.read_text("utf-8")


def test_sections_about_a_type_are_of_types_there_are(definition: dict[str, Any]) -> None:
    named = {
        link.partition("#type-")[2]
        for requirement in CATALOGUE.values()
        if "#type-" in (link := requirement.link)
    }
    assert named, "no section is that of a type"
    assert named <= definition["types"].keys()


def test_symbols_in_the_catalogue_are_those_of_the_definition(definition: dict[str, Any]) -> None:
    known = {
        choice["value"] for type_ in definition["types"].values() for choice in type_["choices"]
    }
    known |= {
        type_["descriptor"]["name"] for type_ in definition["types"].values() if type_["descriptor"]
    }
    symbol = re.compile(r"\bamqp:[a-z:*-]*[a-z*]")
    wrong = [
        f"{requirement.id} has {found}"
        for requirement in CATALOGUE.values()
        for found in symbol.findall(f"{requirement.statement} {requirement.note}")
        if found not in known
    ]
    assert not wrong


def test_defaults_in_the_catalogue_are_those_of_the_definition(definition: dict[str, Any]) -> None:
    written = {
        requirement.id: int(found[1])
        for requirement in CATALOGUE.values()
        if (found := re.search(r"The XML definition: default (\d+)", requirement.note))
    }
    assert written == {
        "AMQP10-MFS-01": field(definition, "open", "max-frame-size")["default_value"],
        "AMQP10-CHMAX-03": field(definition, "open", "channel-max")["default_value"],
        "AMQP10-CHMAX-04": field(definition, "begin", "handle-max")["default_value"],
    }
    falses = {
        requirement.id
        for requirement in CATALOGUE.values()
        if "The XML definition: default false" in requirement.note
    }
    assert falses == {"AMQP10-CREDIT-21", "AMQP10-CREDIT-22", "AMQP10-DISP-03"}
    for type_name, name in (("flow", "drain"), ("flow", "echo"), ("disposition", "settled")):
        assert field(definition, type_name, name)["default_value"] is False
    assert {field["default"] for field in definition["types"]["header"]["fields"]} == {None}, (
        "see AMQP10-MSG-01"
    )


def test_mandatory_fields_in_the_catalogue_are_those_of_the_definition(
    definition: dict[str, Any],
) -> None:
    assert mandatory(definition, "open") == {"container-id"}, "see AMQP10-OPEN-02"
    assert mandatory(definition, "flow") == {
        "incoming-window",
        "next-outgoing-id",
        "outgoing-window",
    }
    assert mandatory(definition, "transfer") == {"handle"}, "see AMQP10-XFER-01"
    assert mandatory(definition, "disposition") == {"role", "first"}, "see AMQP10-DISP-01"
    assert not mandatory(definition, "close"), "see AMQP10-CLOSE-01"
    assert "initial-delivery-count" not in mandatory(definition, "attach"), "see AMQP10-LINK-13"
    assert mandatory(definition, "sasl-mechanisms") == {"sasl-server-mechanisms"}, (
        "see AMQP10-SASL-07"
    )
    assert mandatory(definition, "sasl-outcome") == {"code"}, "see AMQP10-SASL-11"
    assert (
        mandatory(definition, "declared")
        == mandatory(definition, "transactional-state")
        == {"txn-id"}
    )


@pytest.mark.parametrize(
    ("requirement", "type_name"),
    [
        ("AMQP10-ERR-02", "connection-error"),
        ("AMQP10-ERR-03", "session-error"),
        ("AMQP10-ERR-04", "link-error"),
        ("AMQP10-SASL-11", "sasl-code"),
    ],
)
def test_lists_in_the_catalogue_are_those_of_the_definition(
    definition: dict[str, Any], requirement: str, type_name: str
) -> None:
    found = CATALOGUE[requirement]
    told = f"{found.statement} {found.note}"
    missing = [
        value
        for value in (
            choice if isinstance(choice, str) else name
            for name, choice in choices(definition, type_name).items()
        )
        if not re.search(rf"\b{re.escape(value.rpartition(':')[2])}\b", told)
    ]
    assert not missing


def test_descriptors_in_the_catalogue_are_those_of_the_definition(
    definition: dict[str, Any],
) -> None:
    def codes(archetype: str) -> list[int]:
        of = [type_ for type_ in definition["types"].values() if archetype in type_["provides"]]
        return sorted(type_["descriptor"]["code"] for type_ in of)

    assert codes("frame") == list(range(0x10, 0x19)), "see AMQP10-FRAME-05"
    assert codes("sasl-frame") == list(range(0x40, 0x45)), "see AMQP10-SASL-05"
    assert codes("delivery-state") == [*range(0x23, 0x28), 0x33, 0x34], "see AMQP10-OUT-01"
    assert codes("outcome") == [*range(0x24, 0x28), 0x33], "see AMQP10-OUT-01"
    assert len(choices(definition, "amqp-error")) == 13, "see AMQP10-ERR-01"
    assert choices(definition, "role") == {"sender": False, "receiver": True}, "see AMQP10-DISP-01"
    assert choices(definition, "transaction-error").keys() == {
        "unknown-id",
        "transaction-rollback",
        "transaction-timeout",
    }
    assert definition["constants"]["MIN-MAX-FRAME-SIZE"] == 512, "see AMQP10-MFS-04"
