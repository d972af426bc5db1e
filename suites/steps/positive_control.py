"""Control for a negative case: another connection works before and after it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar


class Settles(Protocol):
    """A peer that can tell whether its session works."""

    def settle(self) -> None:
        """Wait for the answer to some request."""


P = TypeVar("P", bound=Settles)


@contextmanager
def beside(connect: Callable[[], P]) -> Iterator[P]:
    """Control: a connection made by ``connect`` works before and after the block."""
    other = connect()
    other.settle()
    yield other
    other.settle()
