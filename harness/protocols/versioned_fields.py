"""Fields of structures that grew from version to version of their protocol, as tables write them
down."""

from __future__ import annotations

from typing import TypeAlias

Fields: TypeAlias = tuple[tuple[str, str, int], ...]
"""Name, type, and the version of the protocol from which on it is there (0: always)."""


def fields(words: list[str]) -> Fields:
    """Read words like ``NAME:TYPE`` and ``NAME:TYPE@VERSION``."""
    parsed = []
    for word in words:
        name, _, kind = word.partition(":")
        kind, _, since = kind.partition("@")
        parsed.append((name, kind, int(since or 0)))
    return tuple(parsed)
