"""Parts of drawings: templates of SVG filled with values, every text escaped."""

from __future__ import annotations

import re

from markupsafe import escape

_TELLING = re.compile(r"[&<>'\"]")


def fill(template: str, *values: object) -> str:
    """``template`` as ``str.format`` fills it, with texts escaped.

    ``Markup.format`` does the same, many times slower, and a report has millions of these: numbers
    and texts without a character that means something in XML stay as they are.
    """
    return template.format(
        *[value if isinstance(value, int | float) else safe(str(value)) for value in values]
    )


def safe(text: str) -> str:
    """The text escaped for XML, as an ordinary string."""
    return str(escape(text)) if _TELLING.search(text) else text
