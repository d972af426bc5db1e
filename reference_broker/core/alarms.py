"""Alarms: a resource of the broker is short, and who publishes has to wait until none is.

An alarm does not reach for connections. One that is about to take a message in asks, and waits; all who wait go on when the
last alarm is cleared, in the order in which they began to wait. Who only consumes never asks.
"""

from __future__ import annotations

from collections.abc import Callable

MEMORY, DISK = "memory", "disk"


class Alarms:
    """The alarms of one broker."""

    def __init__(self) -> None:
        self._raised: dict[str, None] = {}
        self._waiting: dict[Callable[[], None], None] = {}
        self.watchers: dict[Callable[[bool], None], None] = {}
        """Told when the first alarm is raised (True) and when the last is cleared (False)."""

    @property
    def raised(self) -> tuple[str, ...]:
        """The resources that are short, in the order in which they became so."""
        return tuple(self._raised)

    def set(self, resource: str, short: bool) -> None:
        """``resource`` is short, or is not any more."""
        before = bool(self._raised)
        if short:
            self._raised[resource] = None
        else:
            self._raised.pop(resource, None)
        if bool(self._raised) is not before:
            for tell in list(self.watchers):
                tell(not before)
        if not self._raised:
            waiting, self._waiting = self._waiting, {}
            for go_on in waiting:
                go_on()

    def wait(self, go_on: Callable[[], None]) -> None:
        """``go_on`` is called once when no alarm is left."""
        self._waiting[go_on] = None

    def forget(self, go_on: Callable[[], None]) -> None:
        """``go_on`` is not to be called any more."""
        self._waiting.pop(go_on, None)
