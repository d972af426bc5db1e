"""The templates and the functions that they share, loaded once per process (driver or worker)."""

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from brokerproof.harness.model.time import NS_PER_MS
from brokerproof.reports.model.index_model import LETTERS, MEANINGS, SHOWN, CaseRow
from brokerproof.reports.model.quantities import counted, duration, grouped, minute
from brokerproof.reports.model.slugs import plain_slug
from brokerproof.reports.model.target_history import WORDS

STYLE, THEME = "style.css", "theme.js"
"""The style sheet and the script of every page. They are in the report's folder for pages that do
not include them."""
_SCRIPTS = (THEME, "index.js", "words.js", "drawings.js", "case.js")


@cache
def templates() -> Environment:
    """Return the environment of all templates, which escape all input."""
    environment = Environment(
        loader=PackageLoader("brokerproof.reports.view", "."),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    loader = environment.loader
    assert loader is not None
    texts = {name: loader.get_source(environment, name)[0] for name in (*_SCRIPTS, STYLE)}
    environment.globals.update(
        letters=LETTERS,
        meanings=MEANINGS,
        verdicts=SHOWN,
        went=WORDS,
        style=Markup(texts[STYLE]),
        style_file=STYLE,
        theme=Markup(texts[THEME]),
        theme_file=THEME,
        script=lambda name: Markup(texts[name]),
        trusted=" ".join(_digest(texts[name]) for name in _SCRIPTS),
    )
    environment.filters.update(
        took=took,
        counted=counted,
        grouped=grouped,
        paragraphs=paragraphs,
        minute=minute,
        breakable=breakable,
        in_css=in_css,
        of_requirement=of_requirement,
        of_target=of_target,
        by_verdict=by_verdict,
    )
    return environment


def _digest(script: str) -> str:
    """Return the hash of this script for the content security policy; no other script may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def of_requirement(requirement: str) -> str:
    """Return the address of a requirement's page, relative to the report's folder."""
    return f"requirements/{plain_slug(requirement)}.html"


def of_target(target: str) -> str:
    """Return the address of a target's page, relative to the report's folder."""
    return f"targets/{plain_slug(target)}.html"


def by_verdict(listed: Sequence[tuple[CaseRow, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield each verdict with its cases, in the usual order of verdicts."""
    for verdict, some in groupby(listed, key=lambda entry: entry[0].verdict):
        yield verdict, list(some)


def took(duration_s: float) -> str:
    return duration(round(duration_s * 1000) * NS_PER_MS)


def breakable(name: str) -> Markup:
    """Return a case's name with possible line breaks between words, at least six characters apart.
    The breaks do not affect searching and copying."""
    return Markup(re.sub(r"(.{6,}?[_.])(?=\w)", r"\1<wbr>", str(escape(name))))


def in_css(text: str) -> Markup:
    """Return ``text`` as a CSS string in which everything but letters and digits is escaped by
    number."""
    return Markup(
        f'"{"".join(char if char.isascii() and char.isalnum() else f"{chr(92)}{ord(char):06x}" for char in text)}"'  # noqa: E501
    )


def paragraphs(doc: str) -> list[str]:
    """Return a docstring without its line breaks."""
    return [
        " ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", doc) if paragraph.strip()
    ]
