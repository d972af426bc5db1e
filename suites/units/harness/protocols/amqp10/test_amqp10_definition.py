"""The requirement catalogue agrees with the machine-readable definition of AMQP 1.0."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.catalogue import requirements

JSON = Path(str(files("brokerproof.fixtures"))) / "vectors" / "amqp10-definition.json"
CATALOGUE = {
    requirement.id: requirement
    for requirement in requirements.load().values()
    if requirement.document.name == "amqp10"
}


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
        if (found := re.search(r"In the XML definition the default is (\d+)", requirement.note))
    }
    assert written == {
        "AMQP10-MFS-01": field(definition, "open", "max-frame-size")["default_value"],
        "AMQP10-CHMAX-03": field(definition, "open", "channel-max")["default_value"],
        "AMQP10-CHMAX-04": field(definition, "begin", "handle-max")["default_value"],
    }
    falses = {
        requirement.id
        for requirement in CATALOGUE.values()
        if "In the XML definition the default is false" in requirement.note
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
    expected = {"incoming-window", "next-outgoing-id", "outgoing-window"}
    assert mandatory(definition, "flow") == expected
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
    expected = {"unknown-id", "transaction-rollback", "transaction-timeout"}
    assert choices(definition, "transaction-error").keys() == expected
    assert definition["constants"]["MIN-MAX-FRAME-SIZE"] == 512, "see AMQP10-MFS-04"
