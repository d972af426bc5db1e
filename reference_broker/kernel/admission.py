"""The question of producers whether an address takes more messages, asked before they get credit
and before each message."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol


class Verdict(enum.Enum):
    TAKE = enum.auto()
    DROP = enum.auto()
    """Taken, and lost: the producer does not learn of it."""
    REFUSE = enum.auto()
    UNSTORED = enum.auto()
    """Refused because the disk stores nothing now, whatever the address does when it is full."""
    WAIT = enum.auto()
    """Not now: it is to be offered again when there is room. What was granted credit is taken all
    the same."""


class Disk(Protocol):
    def judge(self, address: str) -> Verdict:
        """Return the verdict of the disk on a message for ``address``."""

    def problem(self) -> str:
        """Return why the disk stores nothing."""


class AdmissionControl:
    """Admits everything that the disk can take. Families with limits of memory override it.

    Asked by the name of an address; the empty name is a producer that has not named one yet.
    """

    def __init__(self, disk: Disk | None = None) -> None:
        self.storing = None if disk is None else disk.judge
        self._disk = disk

    def disk_problem(self) -> str:
        """Return why the disk stores nothing; empty without a disk."""
        return "" if self._disk is None else self._disk.problem()

    def has_room(self, address: str, on_room: Callable[[], None]) -> bool:
        """Return True if a producer may go on at ``address``. If not, ``on_room`` is called once
        when it may, unless it asks again."""
        return True

    def wait_for_change(self, address: str, on_room: Callable[[], None]) -> None:
        """Call ``on_room`` once when ``address`` has room and its size has changed."""

    def forget(self, on_room: Callable[[], None]) -> None:
        """Do not call ``on_room`` any more: its producer is gone, or waits no longer."""

    def judge(self, address: str, *, by_credit: bool) -> Verdict:
        """Return what becomes of a message for ``address``; ``by_credit`` if its producer was held
        back by credit alone."""
        return Verdict.TAKE if self.storing is None else self.storing(address)

    def next(self) -> Callable[[], None] | None:
        """Return one of those that waited and may go on now; it waits no longer."""
        return None
