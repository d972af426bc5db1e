"""Alarms: while a resource of the broker is short, publishers must wait.

An alarm does not act on connections. A connection checks for alarms before it accepts a message,
and waits if there are any. When the last alarm is cleared, all continue in the order in which they
began to wait. Connections that only consume never check.

Linked brokers share their alarms: an alarm raised by any of them applies to all
(RABBITMQ-FLOW-cluster-1)."""

from collections.abc import Callable

MEMORY, DISK = "memory", "disk"
HERE = ""
"""Name of this broker's own alarms; further names are those of linked brokers."""


class Alarms:
    """The alarms of one broker. To notify linked brokers, ``tell`` is called when our own alarm is
    raised or cleared."""

    def __init__(self, tell: Callable[[str, bool], None] = lambda resource, short: None) -> None:
        self._raised: dict[tuple[str, str], None] = {}
        self._tell = tell
        self._waiting: dict[Callable[[], None], None] = {}
        self.watchers: dict[Callable[[bool], None], None] = {}
        """Called with True for the first alarm, and with False when the last is cleared."""

    @property
    def raised(self) -> tuple[str, ...]:
        """The resources that are short here or elsewhere, in the order of their alarms."""
        if not self._raised:
            return ()
        return tuple(dict.fromkeys(resource for _, resource in self._raised))

    @property
    def own(self) -> tuple[str, ...]:
        """The resources that are short here."""
        return tuple(resource for node, resource in self._raised if node == HERE)

    @property
    def all(self) -> tuple[tuple[str, str], ...]:
        """Return all alarms, each as node and resource."""
        return tuple(self._raised)

    def set(self, resource: str, short: bool, node: str = HERE) -> None:
        """Record that ``resource`` is short at ``node``, or has recovered."""
        if short is not ((node, resource) in self._raised) and node == HERE:
            self._tell(resource, short)
        before = bool(self._raised)
        if short:
            self._raised[node, resource] = None
        else:
            self._raised.pop((node, resource), None)
        if bool(self._raised) is not before:
            for tell in list(self.watchers):
                tell(not before)
        if not self._raised:
            waiting, self._waiting = self._waiting, {}
            for go_on in waiting:
                go_on()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` once when no alarm is left."""
        self._waiting[go_on] = None

    def forget(self, go_on: Callable[[], None]) -> None:
        """Cancel ``go_on``."""
        self._waiting.pop(go_on, None)
