"""Parses integers in untrusted text from peers and files."""

from __future__ import annotations

MOST_DIGITS = 20
"""Digits of 2**64 - 1, the largest of a 64-bit field. Python refuses to convert thousands."""


def whole_number(text: str) -> int | None:
    """Return the number that ``text`` spells in ASCII digits; None for any other text.

    Leading zeros are allowed. ``str.isdigit`` and ``str.isdecimal`` would accept other scripts'
    digits or superscripts, and ``int`` whitespace and underscores."""
    if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS:
        return int(text)
    return None
