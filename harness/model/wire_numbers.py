"""Whole numbers as text from a peer or a file that may hold anything."""

from __future__ import annotations

MOST_DIGITS = 20
"""Digits of 2**64 - 1, the largest of a 64-bit field. Python refuses to convert thousands."""


def whole_number(text: str) -> int | None:
    """Return the number that ``text`` writes in ASCII digits, None if it writes none.

    Leading zeros count. ``str.isdigit`` and ``str.isdecimal`` alone accept digits of other
    scripts and superscripts, and ``int`` accepts surrounding separators.
    """
    if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS:
        return int(text)
    return None
