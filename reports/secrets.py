"""Reports are published: what opens a door is blanked before it leaves Spark. The trace itself keeps what was sent."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

NAMES = ("passcode", "authorization")
"""Headers whose value is blanked, in any case of letters."""
BLANK = "(blanked)"

_LINE = rf"(?im)^({'|'.join(NAMES)})([ \t]*:)[^\r\n]*"


def blanked(name: Column, value: Column) -> Column:
    """The value of a header, or :data:`BLANK`."""
    return F.when(F.lower(name).isin(*NAMES), F.lit(BLANK)).otherwise(value)


def blanked_octets(octets: Column, most: int) -> Column:
    """The first ``most`` octets as text, one character an octet, with every header line that holds a secret blanked.

    Octets that are no well-formed frame may hold one all the same.
    """
    return F.substring(F.regexp_replace(F.decode(octets, "ISO-8859-1"), _LINE, f"$1$2{BLANK}"), 1, most)
