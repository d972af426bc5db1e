"""The methods and properties of AMQP 0-9-1 and of RabbitMQ's extensions to it, as data."""

from dataclasses import dataclass
from typing import TypeAlias

from brokerproof.harness.protocols.table_files import tables

Fields: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MethodTable:
    """One method: its name, class and method numbers, fields, and whether content follows."""

    name: str
    class_id: int
    method_id: int
    fields: Fields
    content: bool = False


def _fields(words: list[str]) -> Fields:
    return tuple((name, kind) for name, _, kind in (word.partition(":") for word in words))


_WITH_CONTENT = ("basic.publish", "basic.return", "basic.deliver", "basic.get-ok")

BY_NAME: dict[str, MethodTable] = {
    name: MethodTable(name, int(words[0]), int(words[1]), _fields(words[2:]), name in _WITH_CONTENT)
    for name, words in tables(__file__)["methods"].items()
}
BY_NUMBERS: dict[tuple[int, int], MethodTable] = {
    (method.class_id, method.method_id): method for method in BY_NAME.values()
}

BASIC = 60
PROPERTIES: Fields = _fields(tables(__file__)["properties"]["basic"])
"""Properties of class basic in the order of their flags, the first at bit 15 (4.2.6.1)."""
