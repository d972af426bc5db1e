"""Converts drawn arguments to JSON and back without evaluating code.

Dataclasses and enumerations are named ``module:Class`` and are looked up in those of our modules
that are already imported. Nothing is imported, and no other classes are called. A value without a
JSON form, such as an entry in a table of malformed frames, is named by its table (``module:TABLE``)
and its index."""

import base64
import dataclasses
import enum
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from brokerproof.harness.model.input_file import OneSentence

PACKAGES = ("brokerproof.suites.", "brokerproof.harness.")


class Unstorable(Exception):
    """A value cannot be stored in a form that could be read back. The message names its type."""


class Unrestorable(OneSentence):
    """A stored plan names something that does not exist here."""


def encode(value: Any) -> Any:
    """Return ``value`` as JSON. Raises :class:`Unstorable`."""
    if isinstance(value, enum.Enum):
        return {"enum": _name(type(value)), "member": value.name}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes | bytearray):
        return {"bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, set | frozenset):
        return {
            "set" if isinstance(value, set) else "frozenset": [
                encode(item) for item in sorted(value, key=repr)
            ]
        }
    if isinstance(value, Mapping):
        return {"mapping": [[encode(key), encode(item)] for key, item in value.items()]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _encode_dataclass(value)
    raise Unstorable(f"an argument of type {type(value).__name__} cannot be stored")


def _encode_dataclass(value: Any) -> Any:
    kind = type(value)
    fields = [field.name for field in dataclasses.fields(value) if field.init]
    try:
        encoded = {name: encode(getattr(value, name)) for name in fields}
    except Unstorable:
        for name, table in vars(sys.modules[kind.__module__]).items():
            if isinstance(table, (list, tuple)):
                for index, entry in enumerate(table):
                    if entry is value:
                        return {
                            "constant": f"{kind.__module__}:{name}",
                            "index": index,
                            "shown": _shown(value),
                        }
        raise
    return {"dataclass": _name(kind), "fields": encoded}


def decode(stored: Any) -> Any:
    """Return the value that :func:`encode` stored. Raises :class:`Unrestorable`."""
    if not isinstance(stored, (dict, list)):
        return stored
    if isinstance(stored, list):
        return [decode(item) for item in stored]
    try:
        return _decode(stored)
    except Unrestorable:
        raise
    except Exception as problem:  # our classes may reject arguments by any exception
        raise Unrestorable(f"stored arguments do not fit this version: {problem!r:.200}") from None


def _decode(stored: Mapping[str, Any]) -> Any:
    kind = next(iter(stored))
    inner = stored[kind]
    match kind:
        case "bytes":
            return base64.b64decode(inner, validate=True)
        case "tuple" | "set" | "frozenset":
            make: Any = {"tuple": tuple, "set": set, "frozenset": frozenset}[kind]
            return make(decode(item) for item in inner)
        case "mapping":
            return {decode(key): decode(item) for key, item in inner}
        case "enum":
            value = _found(inner)
            if not (isinstance(value, type) and issubclass(value, enum.Enum)):
                raise Unrestorable(f"{inner} is not an enumeration")
            return value[stored["member"]]
        case "dataclass":
            value = _found(inner)
            if not (isinstance(value, type) and dataclasses.is_dataclass(value)):
                raise Unrestorable(f"{inner} is not a dataclass")
            return value(**{name: decode(item) for name, item in stored["fields"].items()})
        case "constant":
            table = _found(inner)
            if not isinstance(table, Sequence):
                raise Unrestorable(f"{inner} is not a table")
            if _shown(table[stored["index"]]) != stored["shown"]:
                raise Unrestorable(f"entry {stored['index']} of {inner} has changed since then")
            return table[stored["index"]]
    raise Unrestorable(f"{kind!r} is a kind of argument that this version does not know")


def _shown(value: object) -> str:
    """Return a value as text that is identical in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:200]


def _name(kind: type) -> str:
    if not kind.__module__.startswith(PACKAGES) or "<locals>" in kind.__qualname__:
        raise Unstorable(
            f"an argument of type {kind.__qualname__} cannot be stored: it is not in brokerproof"
        )
    return f"{kind.__module__}:{kind.__qualname__}"


def _found(name: str) -> object:
    module, _, path = name.partition(":")
    if not module.startswith(PACKAGES) or module not in sys.modules:
        raise Unrestorable(f"{name}: no suite has a module of that name")
    value: object = sys.modules[module]
    for part in path.split("."):
        if part.startswith("_"):
            raise Unrestorable(f"{name}: is private")
        value = getattr(value, part)
    return value
