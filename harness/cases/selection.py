"""Selects cases: by id or words of it, by requirement, by area, and without some."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from brokerproof.harness.catalogue.areas import area_of

_TOKEN = re.compile(r"\(|\)|[^\s()]+")
_DOTTED = re.compile(r"\w+(\.\w+)+")
"""The name of a case or of a module of cases: no words that others may contain."""
_OPERATORS = frozenset({"and", "or", "not", "(", ")"})


class BadSelection(Exception):
    """Words that select nothing by their form: one sentence."""


class Selectable(Protocol):
    """One case with its version and parameters, as far as a selection looks at it."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def function(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def requirements(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Selection:
    """The cases that a run is asked for. Empty fields select everything.

    A case is chosen if one of ``cases``, one of ``requirements`` and one of ``areas`` names it,
    each if given, and none of ``exclude`` does. ``cases`` and ``exclude`` hold ids as printed
    (with or without the part in brackets), or words: ``credit and not (tls or model)``.
    """

    cases: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    areas: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """True if anything is asked for."""
        return bool(self.cases or self.exclude or self.requirements or self.areas)

    def chooses(self, case: Selectable) -> bool:
        """True if the selection has ``case``. Raises :class:`BadSelection`."""
        if self.requirements and not any(
            _cites(case.requirements, wanted) for wanted in self.requirements
        ):
            return False
        if self.areas and not {area_of(cited) for cited in case.requirements} & set(self.areas):
            return False
        if self.cases and not any(names(text, case) for text in self.cases):
            return False
        return not any(names(text, case) for text in self.exclude)

    def unused(self, cases: Iterable[Selectable]) -> Iterator[str]:
        """Yield the ids and words of ``cases`` and ``exclude``, and the requirements, that fit none
        of these cases: they are likely misspelled."""
        described = list(cases)
        for text in (*self.cases, *self.exclude):
            if not any(names(text, case) for case in described):
                yield text
        for requirement in self.requirements:
            if not any(_cites(case.requirements, requirement) for case in described):
                yield requirement


def names(text: str, case: Selectable) -> bool:
    """True if ``text`` is the case's id, the beginning of it up to a dot or bracket, or words that
    fit it. Raises :class:`BadSelection` for words that are no expression."""
    if case.id == text or case.id.startswith((f"{text}.", f"{text}[")):
        return True
    if _DOTTED.fullmatch(text):
        return False
    haystack = f"{case.id} {case.function} {case.source}".lower()
    terms = [
        token if token in _OPERATORS else str(token.lower() in haystack)
        for token in _TOKEN.findall(text)
    ]
    try:
        # Each term is an operator, True or False: nothing of the text itself is evaluated.
        return bool(eval(" ".join(terms)))
    except SyntaxError:
        if "[" in text:  # an id of another case: its brackets may hold spaces and operators
            return False
        raise BadSelection(
            f"{text!r} is no expression; give an id as it is printed, or words with and, or, not"
            " and parentheses"
        ) from None


def _cites(requirements: tuple[str, ...], wanted: str) -> bool:
    """True if one of ``requirements`` is ``wanted`` or begins with it up to a dash."""
    folded = wanted.casefold().removesuffix("-")
    return any(
        cited.casefold() == folded or cited.casefold().startswith(f"{folded}-")
        for cited in requirements
    )
