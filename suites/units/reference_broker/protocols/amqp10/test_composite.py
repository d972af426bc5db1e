"""The broker's tables, compared with the machine-readable definition of AMQP 1.0: every type,
field, code, choice and condition."""

import json
import re
import tomllib
from importlib.resources import files
from typing import Any

import pytest

from brokerproof.reference_broker.protocols.amqp10 import (
    composite,
    conditions,
    decoder,
    messaging,
    performatives,
)
from brokerproof.reference_broker.protocols.amqp10.composite import (
    CHOICES,
    RESTRICTED,
    Composite,
    Field,
)

DEFINITION: dict[str, Any] = json.loads(
    (files("brokerproof.fixtures") / "vectors" / "amqp10-definition.json").read_text("utf-8")
)
TYPES: dict[str, dict[str, Any]] = DEFINITION["types"]
COMPOSITES = {name: each for name, each in TYPES.items() if each["class"] == "composite"}

UNDECODED = {
    "delivery-annotations",
    "message-annotations",
    "application-properties",
    "data",
    "amqp-sequence",
}
SECTION_TYPES = UNDECODED | {"amqp-value", "footer"}
UNTYPED_CHOICES = {
    "role",
    "txn-capability",
    "std-dist-mode",
    "amqp-error",
    "connection-error",
    "session-error",
}
UNTYPED_CHOICES |= {"link-error", "transaction-error"}
"""Restricted types that reject nothing: their choices are booleans, or symbols that peers may
extend."""


def test_every_composite_type_of_the_definition_is_declared_and_no_other() -> None:
    assert {declared.NAME for declared in composite.BY_CODE.values()} == set(COMPOSITES)


@pytest.mark.parametrize("name", sorted(COMPOSITES))
def test_descriptors_and_what_is_provided(name: str) -> None:
    defined = COMPOSITES[name]
    declared = composite.BY_SYMBOL[defined["descriptor"]["name"]]
    assert declared is composite.BY_CODE[defined["descriptor"]["code"]]
    assert (declared.NAME, set(declared.PROVIDES)) == (name, set(defined["provides"]))


@pytest.mark.parametrize("name", sorted(COMPOSITES))
def test_fields_in_their_order(name: str) -> None:
    declared = composite.BY_SYMBOL[COMPOSITES[name]["descriptor"]["name"]]
    assert [_row(field) for field in declared.FIELDS] == [
        _defined(field) for field in COMPOSITES[name]["fields"]
    ]


def _row(field: Field) -> tuple[object, ...]:
    default = None if field.default == () else field.default
    return (field.name, field.type, field.mandatory, field.multiple, default, field.requires)


def _defined(field: dict[str, Any]) -> tuple[object, ...]:
    return (
        field["name"],
        field["type"],
        field["mandatory"],
        field["multiple"],
        field["default_value"],
        " ".join(field["requires"] or [])
        if isinstance(field["requires"], list)
        else field["requires"] or "",
    )


def test_primitive_types_and_their_constructors() -> None:
    defined = {
        name: {encoding["code"] for encoding in about["encodings"]}
        for name, about in TYPES.items()
        if about["class"] == "primitive"
    }
    assert {name: set(readers) for name, readers in decoder.CODES.items()} == defined
    assert {name: set(readers) for name, readers in decoder.PLAIN.items()} == defined


def test_constructors_without_data() -> None:
    widthless = {
        encoding["code"]
        for about in TYPES.values()
        for encoding in about.get("encodings") or ()
        if encoding["category"] == "fixed" and encoding["width"] == 0
    }
    assert widthless == decoder.EMPTY


@pytest.mark.parametrize("name", sorted(RESTRICTED))
def test_restricted_types_of_fields(name: str) -> None:
    source = TYPES[name]["source"]
    while TYPES[source]["class"] == "restricted":
        source = TYPES[source]["source"]
    assert RESTRICTED[name] == source


def test_every_type_that_a_field_has_can_be_read() -> None:
    used = {field.type for declared in composite.BY_CODE.values() for field in declared.FIELDS}
    known = {"*", "error", *RESTRICTED, *decoder.CODES}
    assert used <= known


def test_choices() -> None:
    defined = {
        name: frozenset(choice["value"] for choice in about["choices"])
        for name, about in TYPES.items()
        if about.get("choices") and name not in UNTYPED_CHOICES
    }
    assert dict(CHOICES) == defined
    roles = {choice["name"]: choice["value"] for choice in TYPES["role"]["choices"]}
    assert roles == {"sender": performatives.SENDER, "receiver": performatives.RECEIVER}
    modes = {choice["name"]: choice["value"] for choice in TYPES["std-dist-mode"]["choices"]}
    assert modes == {"move": messaging.MOVE, "copy": messaging.COPY}


def test_conditions() -> None:
    defined = {
        choice["value"]
        for name, about in TYPES.items()
        if "error-condition" in about["provides"]
        for choice in about["choices"]
    }
    ours = {value for name, value in vars(conditions).items() if name.isupper()}
    assert ours == defined


def test_sections_that_are_no_composites() -> None:
    defined = {
        about["descriptor"]["name"].removeprefix("amqp:"): about["descriptor"]["code"]
        for name, about in TYPES.items()
        if name in SECTION_TYPES
    }
    assert {name: code for name, (code, _) in messaging.SECTIONS.items()} == defined


def test_constants() -> None:
    constants = DEFINITION["constants"]
    assert constants["MIN-MAX-FRAME-SIZE"] == performatives.MIN_MAX_FRAME_SIZE
    assert constants["MESSAGE-FORMAT"] == 0


def test_what_an_archetype_lets_in() -> None:
    """A field that requires an archetype accepts exactly the types that provide it."""
    for archetype in {
        field.requires
        for declared in composite.BY_CODE.values()
        for field in declared.FIELDS
        if field.type == "*"
    }:
        providers = {name for name, about in TYPES.items() if archetype in about["provides"]}
        if archetype in composite.REQUIRES_PRIMITIVE:
            assert set(composite.REQUIRES_PRIMITIVE[archetype]) == {
                TYPES[provider]["source"] for provider in providers
            }
        elif archetype != "global-tx-id":  # no type in the definition provides it
            ours = {
                declared.NAME
                for declared in composite.BY_CODE.values()
                if archetype in declared.PROVIDES
            }
            assert ours == providers


def test_frames_are_told_apart_by_what_they_provide() -> None:
    frames = {name for name, about in COMPOSITES.items() if "frame" in about["provides"]}
    assert {var.NAME for var in vars(performatives).values() if _provides(var, "frame")} == frames


def _provides(value: object, role: str) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, Composite)
        and role in getattr(value, "PROVIDES", ())
    )


def test_every_requirement_that_the_broker_cites_is_in_the_catalogue() -> None:
    package = files("brokerproof.reference_broker") / "protocols" / "amqp10"
    text = "".join(
        path.read_text("utf-8") for path in package.iterdir() if path.name.endswith(".py")
    )
    catalogue = tomllib.loads(
        (files("brokerproof.fixtures") / "requirements" / "amqp10.toml").read_text("utf-8")
    )
    known = {row["id"] for row in catalogue["requirement"]}
    cited = set(re.findall(r"AMQP10-[A-Z]+-[0-9]+", text))
    assert cited <= known, (
        f"{', '.join(sorted(cited - known))}: not in fixtures/requirements/amqp10.toml"
    )
