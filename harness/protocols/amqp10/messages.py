"""The sections of an AMQP 1.0 message (part 3, 3.2), written and read without judgement."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.protocols.amqp10 import types
from brokerproof.harness.protocols.amqp10.codec import composite, fields_of, typed
from brokerproof.harness.protocols.amqp10.tables import SECTIONS
from brokerproof.harness.protocols.amqp10.types import Described, Item, Malformed, Value

_NAMES = {code: name for name, code in SECTIONS.items()}
_SYMBOLIC = frozenset({"delivery-annotations", "message-annotations", "footer"})


def section(name: str, value: Any) -> Described:
    """Make one section. ``value`` is a mapping of fields for header and properties, bytes for data,
    a mapping for annotations and application-properties, and whatever any other section
    requires."""
    if name in ("header", "properties"):
        return composite(name, value)
    if name in _SYMBOLIC:
        return Described(types.ulong(SECTIONS[name]), typed(value, "fields"))
    return Described(types.ulong(SECTIONS[name]), types.item(value))


def message(body: Any = b"", **sections: Any) -> bytes:
    """Return a message's bytes. Sections are given by name (underscores allowed). A ``body`` of
    bytes becomes data, None means no body, and anything else becomes an amqp-value. The order is
    the specification's, with the body before the footer."""
    given = {name.replace("_", "-"): value for name, value in sections.items()}
    if body is not None:
        given["data" if isinstance(body, bytes) else "amqp-value"] = body
    return encode(section(name, given[name]) for name in SECTIONS if given.get(name) is not None)


def encode(sections: Iterable[Item]) -> bytes:
    """Return the bytes of any sections, in the given order."""
    return b"".join(map(types.encode, sections))


@dataclass(frozen=True, slots=True)
class Message:
    """The sections as read, in order. ``bare`` is the bytes from properties to the end of the
    body."""

    sections: tuple[tuple[str, Item], ...]
    bare: bytes

    def first(self, name: str) -> Item | None:
        """Return the value of the first section with that name, without its descriptor."""
        return next((value for section, value in self.sections if section == name), None)

    def fields(self, name: str) -> Mapping[str, Any]:
        """Return the fields of the header or properties as plain Python; empty if there are
        none."""
        section = self.first(name)
        if section is None:
            return {}
        return {
            key: types.plain(value)
            for key, value in fields_of(Described(types.ulong(SECTIONS[name]), section)).items()
        }

    def map(self, name: str) -> Mapping[Any, Any]:
        """Return annotations, application-properties or the footer as a plain dict; empty if the
        section is missing."""
        section = self.first(name)
        return types.plain(section) if isinstance(section, Value) and section.type == "map" else {}

    @property
    def body(self) -> Any:
        """The body as plain Python: all data sections joined, the value, or all sequences as one
        list."""
        data = [value for name, value in self.sections if name == "data"]
        if data:
            return b"".join(types.plain(section) for section in data)
        sequences = [value for name, value in self.sections if name == "amqp-sequence"]
        if sequences:
            return [item for value in sequences for item in types.plain(value)]
        value_section = self.first("amqp-value")
        return None if value_section is None else types.plain(value_section)


def read(payload: bytes) -> Message:
    """Read the message in a payload. Raises :class:`Malformed` for anything but a sequence of known
    sections."""
    sections: list[tuple[str, Item]] = []
    bare_from = bare_to = at = 0
    while at < len(payload):
        what, end = types.decode(payload, at)
        if not isinstance(what, Described) or not isinstance(what.descriptor, Value):
            raise Malformed(
                f"a message has {types.text(what)[:100]} at byte {at}, which is not a section"
            )
        name = _section_name(what.descriptor)
        if name is None:
            raise Malformed(
                f"a message has an unknown section {types.text(what.descriptor)} at byte {at}"
            )
        if name not in ("header", "delivery-annotations", "message-annotations", "footer"):
            # Store one more than the offset, so that byte 0 is not mistaken for "not yet".
            bare_from = bare_from or at + 1
            bare_to = end
        sections.append((name, what.value))
        at = end
    return Message(tuple(sections), payload[bare_from - 1 : bare_to] if bare_from else b"")


def _section_name(descriptor: Value) -> str | None:
    if descriptor.type == "ulong":
        return _NAMES.get(descriptor.value)
    if descriptor.type == "symbol":
        parts = str(descriptor.value).split(":")
        if len(parts) == 3 and parts[0] == "amqp" and parts[1] in SECTIONS:
            return parts[1]
    return None
