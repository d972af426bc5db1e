"""Control for a negative case: another connection works before and after it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar


class Settles(Protocol):
    """A peer that can check its session."""

    def settle(self) -> None:
        """Send a request and wait for the answer."""


P = TypeVar("P", bound=Settles)


@contextmanager
def beside(connect: Callable[[], P]) -> Iterator[P]:
    """Control: a connection made by ``connect`` works before and after the block."""
    other = connect()
    other.settle()
    yield other
    other.settle()
