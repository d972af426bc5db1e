"""Parses integers in untrusted text from peers and files."""

MOST_DIGITS = 20
"""The digits of 2**64 - 1, the largest 64-bit number. Python refuses to convert thousands of
digits."""


def whole_number(text: str) -> int | None:
    """Return the number that ``text`` represents in ASCII digits; None for any other text.

    Leading zeros are allowed. ``str.isdigit`` and ``str.isdecimal`` would also accept superscripts
    or digits of other scripts, and ``int`` would accept whitespace and underscores."""
    if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS:
        return int(text)
    return None
