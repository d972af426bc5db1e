"""Reads TOML files strictly: every key must be known, and every value must have the right type.
Each error is one sentence with file and line.

``tomllib`` does not report line numbers. The tables of an array are in the order of their headers,
so the n-th entry is at the n-th ``[[name]]``."""

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerproof.harness.model import input_file
from brokerproof.harness.model.input_file import BadInput, OneSentence

MOST_BYTES = 8 << 20
MOST_DEPTH = 16
_NESTED = re.compile(r"(?<![A-Za-z0-9_-])(?:[A-Za-z0-9_-]++[ \t]*\.[ \t]*){40}")
"""A key with many parts, for which tomllib would need quadratic time."""


class BadData(OneSentence):
    """A data file is invalid. The message is one sentence with the file, the line or entry, and
    what is expected."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key of an entry: its type, and whether it is mandatory."""

    kind: type
    required: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """One checked table and its position (``stomp12.toml, line 17``)."""

    values: Mapping[str, Any]
    where: str

    def text(self, key: str) -> str:
        return str(self.values.get(key, "")).strip()


_NAMES = {
    str: "text in quotes",
    bool: "true or false",
    dict: "a table",
    list: "a list",
    int: "a whole number",
}


def read(path: Path) -> tuple[dict[str, Any], str]:
    """Return the values and the text of a TOML file. Raises :class:`BadData` if it is missing or
    not TOML."""
    try:
        text = input_file.read_text(path, MOST_BYTES)
    except BadInput as problem:
        raise BadData(f"{path}: {problem}") from None
    if brackets := _NESTED.search(text):
        line = text.count("\n", 0, brackets.start()) + 1
        raise BadData(f"{path}, line {line}: a key has 40 or more parts; use a table instead")
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise BadData(f"{path}: is not TOML ({problem})") from None
    _check(path, values, 0)
    return values, text


def _check(path: Path, value: Any, depth: int) -> None:
    """Raise :class:`BadData` for numbers and nesting that are valid TOML but never occur in our
    files."""
    if depth > MOST_DEPTH:
        raise BadData(f"{path}: values are nested deeper than {MOST_DEPTH} levels")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadData(f"{path}: the number {value} is not finite; write a finite one")
    if isinstance(value, int) and abs(value) >= 1 << 64:
        raise BadData(f"{path}: an integer has {value.bit_length()} bits; at most 64 are allowed")
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _check(path, inner, depth + 1)


def entries(
    path: Path, name: str, keys: Mapping[str, Key], values: Mapping[str, Any], text: str
) -> Iterator[Entry]:
    """Return the ``[[name]]`` tables of a file that :func:`read` has read. Raises :class:`BadData`
    for the first invalid one."""
    rows = values.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadData(f"{path}: {name} should be an array of tables, each begun by [[{name}]]")
    header = re.compile(rf"\s*\[\[\s*{re.escape(name)}\s*\]\]")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if header.match(line)]
    for index, row in enumerate(rows):
        place = f"line {lines[index]}" if len(lines) == len(rows) else f"entry {index + 1}"
        yield table(f"{path}, {place}", keys, row, name)


def table(where: str, keys: Mapping[str, Key], row: Mapping[str, Any], name: str) -> Entry:
    """Return ``row`` as an entry. Raises :class:`BadData` for unknown, missing, mistyped or empty
    keys."""
    who = f"{where}: {row['id']}" if isinstance(row.get("id"), str) else where
    for key, value in row.items():
        if key not in keys:
            raise BadData(f"{who}: unknown key {key!r}; a {name} has {', '.join(keys)}")
        if type(value) is not keys[key].kind:
            raise BadData(f"{who}: {key} is {value!r}; it should be {_NAMES[keys[key].kind]}")
        if isinstance(value, str) and not value.strip() and keys[key].required:
            raise BadData(f"{who}: {key} is empty; give it a text")
    for key, rule in keys.items():
        if rule.required and key not in row:
            raise BadData(f"{who}: {key} is missing; a {name} needs it")
    return Entry(row, where)


def only(path: Path, values: Mapping[str, Any], *allowed: str) -> None:
    """Raise :class:`BadData` if a file has a top-level key that is not ``allowed``."""
    for key in values:
        if key not in allowed:
            raise BadData(f"{path}: unknown key {key!r}; this file has {', '.join(allowed)}")
