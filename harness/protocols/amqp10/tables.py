"""The composite types of AMQP 1.0 as a table: descriptors, and fields in order."""

from collections.abc import Mapping
from dataclasses import dataclass

from brokerproof.harness.protocols.table_files import tables

SECTIONS: Mapping[str, int] = {
    "header": 0x70,
    "delivery-annotations": 0x71,
    "message-annotations": 0x72,
    "properties": 0x73,
    "application-properties": 0x74,
    "data": 0x75,
    "amqp-sequence": 0x76,
    "amqp-value": 0x77,
    "footer": 0x78,
}
"""The sections of a message, in order, by the code of their descriptor."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a composite; its place is its position."""

    name: str
    type: str
    mandatory: bool


@dataclass(frozen=True, slots=True)
class Composite:
    """A described list with named fields."""

    name: str
    code: int
    fields: tuple[Field, ...]

    @property
    def symbol(self) -> str:
        return f"amqp:{self.name}:list"


def _field(text: str) -> Field:
    name, _, kind = text.partition(":")
    return Field(name, kind.removesuffix("!"), kind.endswith("!"))


COMPOSITES: Mapping[str, Composite] = {
    name: Composite(name, int(code, 16), tuple(map(_field, fields)))
    for name, (code, *fields) in tables(__file__)["composites"].items()
}
"""Composite types by name."""
BY_CODE: Mapping[int, Composite] = {composite.code: composite for composite in COMPOSITES.values()}
BY_SYMBOL: Mapping[str, Composite] = {
    composite.symbol: composite for composite in COMPOSITES.values()
}

PERFORMATIVES = frozenset(
    name for name, composite in COMPOSITES.items() if 0x10 <= composite.code <= 0x18
)
SASL = frozenset(name for name in COMPOSITES if name.startswith("sasl-"))
