"""Flat names for the fields of nested settings records.

Configuration readers, profiles and overrides name a parameter with a single word
(``stomp_consumer_window_size``). The settings group these parameters into one record for each
protocol (``acceptor.stomp.consumer_window_size``). A parameter's name is the prefix of its record
followed by the name of the field.
"""

import typing
from collections import defaultdict
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

Record = TypeVar("Record")


class Options:
    """A group of settings within a larger record."""

    __slots__ = ()
    prefix: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Parameter:
    """The place of a parameter: a field of the record itself, or of its field ``options``."""

    field: str
    options: str
    type: Any

    def is_set(self, record: object) -> bool:
        """Return True if ``record`` has the options that the parameter belongs to."""
        return not self.options or getattr(record, self.options) is not None

    def of(self, record: object) -> Any:
        return getattr(getattr(record, self.options) if self.options else record, self.field)


_KNOWN: dict[type[Any], dict[str, Parameter]] = {}


def parameters(kind: type[Any]) -> dict[str, Parameter]:
    """Return the parameters of a settings class, by name."""
    if kind not in _KNOWN:
        _KNOWN[kind] = _parameters(kind)
    return _KNOWN[kind]


def _parameters(kind: type[Any]) -> dict[str, Parameter]:
    known = {}
    hints = typing.get_type_hints(kind)
    for field in fields(kind):
        hint = hints[field.name]
        options = next(filter(_is_options, (hint, *typing.get_args(hint))), None)
        if options is None:
            known[field.name] = Parameter(field.name, "", hint)
        else:
            for name, parameter in parameters(options).items():
                known[options.prefix + name] = Parameter(name, field.name, parameter.type)
    return known


def _is_options(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Options)


def with_parameters(record: Record, **values: Any) -> Record:
    known = parameters(type(record))
    changes: dict[str, Any] = {}
    grouped: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in values.items():
        parameter = known[name]
        if parameter.options:
            grouped[parameter.options][parameter.field] = value
        else:
            changes[name] = value
    for options, fields_of_options in grouped.items():
        changes[options] = replace(getattr(record, options), **fields_of_options)
    return replace(record, **changes)  # type: ignore[type-var]
