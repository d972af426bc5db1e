"""Byte windows: how many messages a subscription may hold, given the sizes of the frames received.

Source: the Artemis STOMP chapter, flow control (ARTEMIS-STOMP-window-1 to -5). A delivery may begin
while the credit is positive and costs the size of its whole frame, so the last delivery may exceed
the window by less than its own size. Settling a delivery restores exactly the credit that it cost.
A window of 0 allows one delivery at a time; -1 allows any number."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class WindowAccount:
    """The running credit of one subscription, from frames received and settlements sent, in
    bytes."""

    window: int
    held: list[int] = field(default_factory=list)

    @property
    def open(self) -> bool:
        if self.window < 0:
            return True
        return not self.held if self.window == 0 else sum(self.held) < self.window

    def delivered(self, size: int) -> bool:
        """Record a delivery of ``size`` bytes; return whether the window was open."""
        allowed = self.open
        self.held.append(size)
        return allowed

    def settled(self, count: int) -> None:
        """Record that the oldest ``count`` deliveries were settled."""
        del self.held[:count]


def fits(window: int, sizes: Sequence[int]) -> int:
    """Return how many unsettled deliveries with these frame sizes, in order, the window permits."""
    account = WindowAccount(window)
    for count, size in enumerate(sizes):
        if not account.open:
            return count
        account.delivered(size)
    return len(sizes)
