"""Composite types, declared as tables of fields: a described list whose elements have names and
types.

A class under :func:`composite` is both the declaration, in the words of the specification's XML,
and the value::

@composite("begin", 0x11, provides="frame")
    class Begin(Composite):
        remote_channel: int | None = field("ushort", default=None)
        next_outgoing_id: int = field("transfer-number", mandatory=True)

The order of the fields is their order on the wire. On the wire, a field that is null or missing at
the end of the list has its default value. Reading checks the type of every field and the presence
of mandatory fields; errors are raised as
:class:`~brokerproof.reference_broker.protocols.amqp10.decoder.DecodeError` or, for a value outside
the declared choices, an :class:`InvalidField`.
"""

import dataclasses
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from brokerproof.reference_broker.protocols.amqp10 import decoder, encoder
from brokerproof.reference_broker.protocols.amqp10.decoder import DEPTH, PLAIN, DecodeError, Reader
from brokerproof.reference_broker.protocols.amqp10.types import Array, Symbol, Ulong

RESTRICTED: Mapping[str, str] = {
    "role": "boolean",
    "sender-settle-mode": "ubyte",
    "receiver-settle-mode": "ubyte",
    "handle": "uint",
    "seconds": "uint",
    "milliseconds": "uint",
    "delivery-tag": "binary",
    "delivery-number": "uint",
    "transfer-number": "uint",
    "sequence-no": "uint",
    "message-format": "uint",
    "ietf-language-tag": "symbol",
    "fields": "map",
    "node-properties": "map",
    "filter-set": "map",
    "terminus-durability": "uint",
    "terminus-expiry-policy": "symbol",
    "sasl-code": "ubyte",
}
"""Restricted types of fields, and the primitive types that they restrict."""

CHOICES: Mapping[str, frozenset[Any]] = {
    "sender-settle-mode": frozenset({0, 1, 2}),
    "receiver-settle-mode": frozenset({0, 1}),
    "terminus-durability": frozenset({0, 1, 2}),
    "terminus-expiry-policy": frozenset(
        {"link-detach", "session-end", "connection-close", "never"}
    ),
    "sasl-code": frozenset({0, 1, 2, 3, 4}),
}
"""Restricted types with a fixed set of values."""

SYMBOLIC_KEYS = frozenset({"fields", "node-properties", "filter-set"})
"""Maps whose keys are symbols."""

REQUIRES_PRIMITIVE: Mapping[str, tuple[str, ...]] = {
    "message-id": ("ulong", "uuid", "binary", "string"),
    "address": ("string",),
    "txn-id": ("binary",),
}
"""Fields of any type (``*``) whose ``requires`` is satisfied by primitive types."""


class InvalidField(Exception):
    """A well-formed field with a forbidden value; reported as ``amqp:invalid-field``."""


@dataclass(frozen=True, slots=True)
class Field:
    """One row of a table. ``name`` is the name in the specification; ``requires`` names the role
    that a value of type ``*`` must provide."""

    name: str
    type: str
    mandatory: bool
    multiple: bool
    default: Any
    requires: str
    attribute: str
    readers: Mapping[int, Reader]
    write: Callable[[Any], bytes]
    keeps: Any
    """Null or the default; a field with this value is not written."""


def field(
    type: str,
    *,
    default: Any = dataclasses.MISSING,
    mandatory: bool = False,
    multiple: bool = False,
    requires: str = "",
) -> Any:
    """Declare a field. Unless it is ``mandatory``, it has a ``default``: None, the declared value,
    or () if ``multiple``."""
    facts = {"type": type, "mandatory": mandatory, "multiple": multiple, "requires": requires}
    return dataclasses.field(default=default, metadata=facts)


class Composite:
    __slots__ = ()

    NAME: ClassVar[str]
    CODE: ClassVar[int]
    PROVIDES: ClassVar[tuple[str, ...]]
    FIELDS: ClassVar[tuple[Field, ...]]
    _DEFAULTS: ClassVar[dict[str, Any]]
    _NEEDED: ClassVar[int]
    _OPENING: ClassVar[bytes]

    def encode(self) -> bytes:
        """Return descriptor and list as bytes, without trailing fields that need not be written."""
        parts: list[bytes] = []
        used = 0
        for field in self.FIELDS:
            value = getattr(self, field.attribute)
            if value is None or value == field.keeps:
                parts.append(b"\x40")
            else:
                parts.append(field.write(value))
                used = len(parts)
        if not used:
            return self._OPENING + b"\x45"
        return self._OPENING + encoder.compound(0xC0, parts[:used], used)

    @classmethod
    def read(cls, data: bytes, at: int, depth: int) -> tuple[Self, int]:
        """Return the value whose list begins at ``at``, after the descriptor, and the position
        after it.

        Raises :class:`DecodeError`, :class:`InvalidField`, and the exceptions of reading past the
        end (see :func:`brokerproof.reference_broker.protocols.amqp10.decoder.value`).
        """
        code = data[at]
        if code == 0xC0:
            end, count, at = at + 2 + data[at + 1], data[at + 2], at + 3
        elif code == 0xD0:
            size, count = _TWO_SIZES(data, at + 1)
            end, at = at + 5 + size, at + 9
        elif code == 0x45:
            count, at = 0, at + 1
            end = at
        else:
            raise DecodeError(
                f"{cls.NAME} must be a list, but 0x{code:02x} is not a list constructor"
            )
        if end > len(data):
            raise DecodeError(f"{cls.NAME} extends beyond the available bytes")
        fields = cls.FIELDS
        if count > len(fields):
            raise DecodeError(f"{cls.NAME} has at most {len(fields)} fields, not {count}")
        if count < cls._NEEDED:
            missing = next(field for field in fields[count:] if field.mandatory)
            raise DecodeError(f"{cls.NAME} has no {missing.name}, which is mandatory")
        values = cls._DEFAULTS.copy()
        for field in fields[:count]:
            code = data[at]
            if code == 0x40:
                if field.mandatory:
                    raise DecodeError(f"{cls.NAME} has no {field.name}, which is mandatory")
                at += 1
                continue
            reader = field.readers.get(code)
            if reader is None:
                raise DecodeError(
                    f"{field.name} of {cls.NAME} must be {field.type}, but the constructor"
                    f" 0x{code:02x} is of another type"
                )
            try:
                values[field.attribute], at = reader(data, at + 1, depth)
            except (DecodeError, InvalidField) as problem:
                raise type(problem)(f"{field.name} of {cls.NAME}: {problem}") from None
        if at != end:
            raise DecodeError(f"the fields of {cls.NAME} end at {at}, but its size says {end}")
        return cls(**values), at


_TWO_SIZES = struct.Struct(">II").unpack_from

BY_CODE: dict[int, type[Composite]] = {}
BY_SYMBOL: dict[str, type[Composite]] = {}
"""Composite types by numeric and by symbolic descriptor; both are legal on the wire."""

_C = TypeVar("_C", bound=type[Composite])


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def composite(name: str, code: int, *, provides: str = "") -> Callable[[_C], _C]:
    """Make a class the composite type ``name`` with the symbolic descriptor ``amqp:NAME:list`` and
    the numeric ``code``.

    ``provides`` names, separated by spaces, the roles of a value in fields that ``require`` one.
    """

    def finish(cls: _C) -> _C:
        made: Any = dataclass(slots=True, kw_only=True)(cls)
        made.NAME, made.CODE, made.PROVIDES = name, code, tuple(provides.split())
        made.FIELDS = tuple(_field(field) for field in dataclasses.fields(made))
        made._DEFAULTS = {field.attribute: field.default for field in made.FIELDS}
        mandatory = [place for place, field in enumerate(made.FIELDS, 1) if field.mandatory]
        made._NEEDED = mandatory[-1] if mandatory else 0
        made._OPENING = b"\0" + encoder.ulong(Ulong(code))
        BY_CODE[code] = made
        BY_SYMBOL[f"amqp:{name}:list"] = made
        encoder_table: Any = encoder.ENCODERS
        encoder_table[made] = made.encode
        return made  # type: ignore[no-any-return]

    return finish


def _field(declared: dataclasses.Field[Any]) -> Field:
    facts = declared.metadata
    default = None if declared.default is dataclasses.MISSING else declared.default
    kind, multiple, requires = facts["type"], facts["multiple"], facts["requires"]
    readers, write = _any(requires) if kind == "*" else _typed(kind)
    if multiple:
        readers, write = _multiple(kind, readers)
    return Field(
        name=declared.name.rstrip("_").replace("_", "-"),
        type=kind,
        mandatory=facts["mandatory"],
        multiple=multiple,
        default=default,
        requires=requires,
        attribute=declared.name,
        readers=readers,
        write=write,
        keeps=_NEVER if facts["mandatory"] else default,
    )


_NEVER = object()

_WRITERS: dict[str, Callable[[Any], bytes]] = {
    "boolean": encoder.boolean,
    "ubyte": encoder.ubyte,
    "ushort": encoder.ushort,
    "uint": encoder.uint,
    "ulong": encoder.ulong,
    "timestamp": encoder.timestamp,
    "binary": encoder.binary,
    "string": encoder.string,
    "symbol": encoder.symbol,
    "map": encoder.mapping,
}


def _typed(kind: str) -> tuple[Mapping[int, Reader], Callable[[Any], bytes]]:
    if kind == "error":
        return {0: _described(lambda: {0x1D: BY_CODE[0x1D]}, kind)}, _write_composite
    primitive = RESTRICTED.get(kind, kind)
    readers = PLAIN[primitive]
    if kind in CHOICES:
        readers = {code: _chosen(reader, CHOICES[kind], kind) for code, reader in readers.items()}
    if kind in SYMBOLIC_KEYS:
        readers = {code: _symbolic(reader, kind) for code, reader in readers.items()}
    return readers, _WRITERS[primitive]


def _chosen(read: Reader, choices: frozenset[Any], kind: str) -> Reader:
    def checked(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        value, at = read(data, at, depth)
        if value not in choices:
            raise InvalidField(f"{str(value)[:40]!a} is not a valid {kind}")
        return value, at

    return checked


def _symbolic(read: Reader, kind: str) -> Reader:
    def checked(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        value, at = read(data, at, depth)
        if not isinstance(value, dict) or any(type(key) is not Symbol for key in value):
            raise DecodeError(f"the keys of {kind} must be symbols")
        return value, at

    return checked


def _any(requires: str) -> tuple[Mapping[int, Reader], Callable[[Any], bytes]]:
    if requires in REQUIRES_PRIMITIVE:
        names = REQUIRES_PRIMITIVE[requires]
        return {
            code: reader for name in names for code, reader in decoder.CODES[name].items()
        }, encoder.encode
    if requires == "global-tx-id":
        return decoder.READERS, encoder.encode

    def allowed() -> dict[int, type[Composite]]:
        return {code: kind for code, kind in BY_CODE.items() if requires in kind.PROVIDES}

    return {0: _described(allowed, requires)}, _write_composite


def _write_composite(value: Composite) -> bytes:
    return value.encode()


def _described(allowed: Callable[[], dict[int, type[Composite]]], what: str) -> Reader:
    """Return a reader of the composites that ``allowed`` returns once all tables are declared."""
    known: dict[int, type[Composite]] = {}

    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        if not known:
            known.update(allowed())
        if depth <= 0:
            raise DecodeError(f"values are nested more than {DEPTH} levels deep")
        code, at = descriptor(data, at)
        kind = known.get(code) if code is not None else None
        if kind is None:
            raise DecodeError(f"its descriptor is not that of a {what}")
        return kind.read(data, at, depth - 1)

    return read


def descriptor(data: bytes, at: int) -> tuple[int | None, int]:
    """Return the numeric code of the numeric or symbolic descriptor at ``at`` (None if it belongs
    to no composite type), and the position after it.
    """
    if data[at] == 0x53:
        return data[at + 1], at + 2
    value, at = decoder.value(data, at, 4)
    if isinstance(value, Symbol):
        kind = BY_SYMBOL.get(value)
        return (None if kind is None else kind.CODE), at
    return (int(value) if isinstance(value, Ulong) else None), at


def _multiple(
    kind: str, single: Mapping[int, Reader]
) -> tuple[Mapping[int, Reader], Callable[[Any], bytes]]:
    """Read null, one value or an array as a tuple. Write a tuple as an array, which every peer
    understands."""
    primitive = RESTRICTED.get(kind, kind)
    element = decoder.KINDS[next(iter(decoder.CODES[primitive]))]

    def one(reader: Reader) -> Reader:
        def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
            value, at = reader(data, at, depth)
            return (value,), at

        return read

    def many(reader: Reader) -> Reader:
        def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
            values, at = reader(data, at, depth)
            if values.kind is not element or values.described:
                raise DecodeError(f"it is not an array of {kind}")
            return tuple(values), at

        return read

    readers = {code: one(reader) for code, reader in single.items()}
    readers |= {code: many(reader) for code, reader in decoder.CODES["array"].items()}
    return readers, lambda values: encoder.array(Array(element, map(element, values)))
