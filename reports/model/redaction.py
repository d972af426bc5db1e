"""Redaction: credentials are blanked before they leave Spark, because reports are published. The
trace keeps them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from brokerproof.reports.spark.on_demand import F

if TYPE_CHECKING:
    from pyspark.sql import Column

NAMES = ("passcode", "password", "authorization", "initial-response", "response")
"""The headers whose values are blanked, in upper or lower case; the last two belong to SASL in AMQP
1.0 and 0-9-1."""
BLANK = "(blanked)"

_LINE = rf"(?im)^({'|'.join(NAMES)})([ \t]*:)[^\r\n]*"
_PLAIN = r"(?s)(PLAIN(?:\xa0.|\xb0.{4}|\x00.{3})\x00).*"
"""The PLAIN mechanism and its response (NUL, user, NUL, passcode), as a binary of AMQP 1.0 or a
long string of 0-9-1."""


_IN_LINES, _IN_SASL = re.compile(_LINE), re.compile(_PLAIN)


def blank_header(name: str, value: str) -> str:
    return BLANK if name.lower() in NAMES else value


def blank_text(data: bytes, most: int) -> str:
    """Return the first ``most`` bytes as text, with secrets blanked (:func:`blanked_bytes`)."""
    text = data.decode("latin-1")
    if ":" in text or "PLAIN" in text:
        text = _IN_SASL.sub(rf"\1{BLANK}", _IN_LINES.sub(rf"\1\2{BLANK}", text))
    return text[:most]


def blanked(name: Column, value: Column) -> Column:
    """Return the value of a header, or :data:`BLANK` instead of a secret."""
    return F.when(F.lower(name).isin(*NAMES), F.lit(BLANK)).otherwise(value)


def blanked_bytes(data: Column, most: int) -> Column:
    """Return the first ``most`` bytes as text, one character per byte.

    Header lines with a secret are blanked, and so is everything after a SASL PLAIN. Bytes that are
    not a well-formed frame may contain a secret too."""
    text = F.decode(data, "ISO-8859-1")
    cleaned = F.regexp_replace(F.regexp_replace(text, _LINE, f"$1$2{BLANK}"), _PLAIN, f"$1{BLANK}")
    # Most bodies are short and contain neither a header line nor a mechanism. It is faster to look
    # for these first than to match.
    suspect = F.contains(text, F.lit(":")) | F.contains(text, F.lit("PLAIN"))
    return F.substring(F.when(suspect, cleaned).otherwise(text), 1, most)
