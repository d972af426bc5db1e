"""Fields of structures that grew with their protocol's versions, as tables describe them."""

from typing import TypeAlias

Fields: TypeAlias = tuple[tuple[str, str, int], ...]
"""Name, type, and the protocol version that introduced it (0: always present)."""


def fields(words: list[str]) -> Fields:
    """Read words like ``NAME:TYPE`` and ``NAME:TYPE@VERSION``."""
    parsed = []
    for word in words:
        name, _, kind = word.partition(":")
        kind, _, since = kind.partition("@")
        parsed.append((name, kind, int(since or 0)))
    return tuple(parsed)
