"""Decides whether an address accepts messages, before granting credit and for each message."""

import enum
from collections.abc import Callable
from typing import Protocol


class Verdict(enum.Enum):
    TAKE = enum.auto()
    DROP = enum.auto()
    """The message is accepted but lost, and the producer does not learn of that."""
    REFUSE = enum.auto()
    UNSTORED = enum.auto()
    """Refused because the disk stores nothing now, whatever the address does when it is full."""
    WAIT = enum.auto()
    """Not now: offer the message again when there is room. If credit was granted for it, it is
    accepted anyway."""


class Disk(Protocol):
    def judge(self, address: str) -> Verdict:
        """Return whether the disk accepts a message for ``address``."""

    def problem(self) -> str:
        """Return why the disk cannot store anything; empty if it can."""


class AdmissionControl:
    """Admits everything that the disk can store. Families with memory limits override it.

    Addresses are given by name; the empty name is for a producer that has not named one yet."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.storing = None if disk is None else disk.judge
        self._disk = disk

    def disk_problem(self) -> str:
        """Return why the disk cannot store anything; empty if it can or there is no disk."""
        return "" if self._disk is None else self._disk.problem()

    def has_room(self, address: str, on_room: Callable[[], None]) -> bool:
        """Return True if a producer may continue at ``address``. If not, ``on_room`` is called once
        when the producer may continue, unless the producer asks again."""
        return True

    def wait_for_change(self, address: str, on_room: Callable[[], None]) -> None:
        """Call ``on_room`` once when ``address`` has room and its size has changed."""

    def forget(self, on_room: Callable[[], None]) -> None:
        """Cancel ``on_room``, because its producer has left or no longer waits."""

    def judge(self, address: str, *, by_credit: bool) -> Verdict:
        """Return the fate of a message; ``by_credit``: only credit held its producer back."""
        return Verdict.TAKE if self.storing is None else self.storing(address)

    def next(self) -> Callable[[], None] | None:
        """Remove and return a waiting callback that may continue now."""
        return None
