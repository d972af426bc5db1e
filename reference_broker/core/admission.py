"""Whether an address takes more messages: what producers ask before they get credit, and before each message.

The standard answer is always yes. An address that counts its memory puts its own :class:`Admission` in its place (part
``admission``), and calls ``on_room`` of those who were told to wait when there is room again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable


class Verdict(enum.Enum):
    """What becomes of a message."""

    TAKE = enum.auto()
    DROP = enum.auto()
    """Taken, and lost: the producer does not learn of it."""
    REFUSE = enum.auto()


class Admission:
    """Asked by the name of an address; the empty name is the producer that names an address in each message."""

    def has_room(self, address: str, on_room: Callable[[], None]) -> bool:
        """Whether a producer may have credit for ``address``. If not, ``on_room`` is called once when it may."""
        return True

    def forget(self, on_room: Callable[[], None]) -> None:
        """``on_room`` is not to be called any more: its producer is gone."""

    def judge(self, address: str, octets: int) -> Verdict:
        """What becomes of a message of ``octets`` for ``address``."""
        return Verdict.TAKE
