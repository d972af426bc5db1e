"""Selects cases by id or words in the id, by requirement and by area, with exclusions."""

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from brokerproof.harness.catalogue.areas import area_of

_TOKEN = re.compile(r"\(|\)|[^\s()]+")
_ID = re.compile(r"\w+(\.\w+)+(\[\S*\])?")
"""The id of a case, or the name of a case or module. Anything else is words to search for in
ids."""
_OPERATORS = frozenset({"and", "or", "not", "(", ")"})


class BadSelection(Exception):
    """The words are not a valid expression. The message is one sentence."""


class Selectable(Protocol):
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
    """The selected cases of a run. Empty fields select everything.

    A case is chosen if it matches each non-empty field of ``cases``, ``requirements`` and
    ``areas``, and nothing in ``exclude``. ``cases`` and ``exclude`` contain ids as printed (with or
    without the brackets) or expressions: ``credit and not (tls or model)``."""

    cases: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    areas: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.cases or self.exclude or self.requirements or self.areas)

    def chooses(self, case: Selectable) -> bool:
        if self.requirements and not any(
            _cites(case.requirements, wanted) for wanted in self.requirements
        ):
            return False
        if self.areas and not {area_of(cited) for cited in case.requirements} & set(self.areas):
            return False
        if self.cases and not self._cases.name(case):
            return False
        return not self._excluded.name(case)

    @functools.cached_property
    def _cases(self) -> "_Texts":
        return _Texts(self.cases)

    @functools.cached_property
    def _excluded(self) -> "_Texts":
        return _Texts(self.exclude)

    def unused(self, cases: Iterable[Selectable]) -> Iterator[str]:
        """Yield the entries of ``cases``, ``exclude`` and ``requirements`` that match none of these
        cases and so are probably misspelled."""
        described = list(cases)
        beginnings = {beginning for case in described for beginning in _beginnings(case.id)}
        for text in (*self.cases, *self.exclude):
            if text not in beginnings and not any(_fits(text, case) for case in described):
                yield text
        for requirement in self.requirements:
            if not any(_cites(case.requirements, requirement) for case in described):
                yield requirement


class _Texts:
    """Ids, prefixes of ids up to a dot or bracket, and words. ``--last-failed`` may give very many
    ids, so these are looked up; only words are compared with every case."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = frozenset(texts)
        self._words = [text for text in texts if not _ID.fullmatch(text)]

    def name(self, case: Selectable) -> bool:
        if not self._texts.isdisjoint(_beginnings(case.id)):
            return True
        return any(_fits(text, case) for text in self._words)


def _beginnings(case: str) -> Iterator[str]:
    """Yield the id of a case and its prefixes up to a dot or a bracket."""
    yield case
    name = case.partition("[")[0]
    while name:
        yield name
        name = name.rpartition(".")[0]


def _fits(words: str, case: Selectable) -> bool:
    """True if ``words`` match the case. Raises :class:`BadSelection` for an invalid expression."""
    if _ID.fullmatch(words):
        return False
    haystack = f"{case.id} {case.function} {case.source}".lower()
    terms = [
        token if token in _OPERATORS else str(token.lower() in haystack)
        for token in _TOKEN.findall(words)
    ]
    try:
        # Each term is an operator, True or False. The user's text is never evaluated.
        return bool(eval(" ".join(terms)))
    except SyntaxError:
        if "[" in words:  # another case's id, whose brackets may contain spaces and operators
            return False
        raise BadSelection(
            f"{words!r} is not an expression; give an id as printed, or words with and, or, not and"
            " parentheses"
        ) from None


def _cites(requirements: tuple[str, ...], wanted: str) -> bool:
    """True if one of ``requirements`` is ``wanted`` or begins with ``wanted`` and a dash."""
    folded = wanted.casefold().removesuffix("-")
    return any(
        cited.casefold() == folded or cited.casefold().startswith(f"{folded}-")
        for cited in requirements
    )
