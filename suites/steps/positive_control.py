"""The control around a negative case: another connection works before it and still does
afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar


class Settles(Protocol):
    """A peer that can tell whether its session works."""

    def settle(self) -> None:
        """Wait for an answer to something."""


P = TypeVar("P", bound=Settles)


@contextmanager
def beside(connect: Callable[[], P]) -> Iterator[P]:
    """Control that a connection made by ``connect`` works at the beginning and at the end."""
    other = connect()
    other.settle()
    yield other
    other.settle()
