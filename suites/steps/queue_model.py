"""A model of a queue: which messages wait, in which order, and which have been delivered.

Messages are numbered in order of publication. A returned message takes its old position, so the
next deliveries are always the lowest waiting numbers.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from brokerproof.suites.api import Target, listed

IN_VIRTUAL_TIME = "reconfigurable"
"""A capability of the reference broker only. Real brokers return the messages of a lost connection
or a closed channel slightly later, and the STOMP model does not wait for that.
"""
MEMORY, PAGED, SOON_PAGED = "memory", "page", "limited.page"
"""Places of a queue: an address in memory, one that pages after some bytes, and one that pages
after three messages and so keeps entering and leaving page mode."""
READ_AHEAD = 8000
"""With this many unacknowledged bytes at a paging address, messages may stay on disk."""


def place_names(target: Target) -> list[str]:
    """Return the names of the target's places, the most different ones first."""
    paged = "address-full" in target.identity.capabilities
    return [MEMORY, SOON_PAGED, PAGED] if paged else [MEMORY]


def places(target: Target) -> st.SearchStrategy[str]:
    return st.sampled_from(place_names(target))


@dataclass
class QueueModel:
    """One queue. ``waiting`` is in order; ``delivered`` has all numbers ever delivered."""

    waiting: list[int] = field(default_factory=list)
    delivered: set[int] = field(default_factory=set)
    published: int = 0
    keeps_places: bool = True
    """False if a returned message may take any position."""
    is_mixed: bool = False
    """True if returned messages may be delivered in any order for now."""
    _arrived: dict[Hashable, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Arrivals by consumer since order was last judged, in the order of its connection."""

    def publish(self) -> int:
        self.published += 1
        self.waiting.append(self.published)
        return self.published

    def give_back(self, numbers: Iterable[int]) -> None:
        """Return messages to their old positions."""
        self.waiting = sorted([*self.waiting, *numbers])

    def next(self) -> list[int]:
        """Return the waiting messages that may come first."""
        if self.keeps_places:
            return self.waiting[:1]
        return [*self._placed(self.waiting)[:1], *self.delivered.intersection(self.waiting)]

    def _placed(self, numbers: Iterable[int]) -> list[int]:
        """Return the ``numbers`` that have a position."""
        keeps_places = self.keeps_places and not self.is_mixed
        return [at for at in numbers if keeps_places or at not in self.delivered]

    def strangers(self, numbers: Sequence[int]) -> list[int]:
        """Return the numbers that were not waiting or that arrived twice."""
        waiting = set(self.waiting)
        return [
            number
            for at, number in enumerate(numbers)
            if number not in waiting or number in numbers[:at]
        ]

    def arrive(self, consumer: Hashable, numbers: Sequence[int]) -> None:
        if numbers:
            self._arrived[consumer].extend(self._placed(numbers))
        self.take(numbers)

    @property
    def has_arrivals(self) -> bool:
        """True if messages have arrived since the order was last judged."""
        return bool(self._arrived)

    def disorder(self) -> str:
        """Return the fault in the order of messages that arrived since the last call, or an empty
        string. Call this when nothing is in transit: several connections may be read out of
        order."""
        arrivals = list(self._arrived.values())
        self._arrived.clear()
        numbers = sorted(number for arrived in arrivals for number in arrived)
        due = sorted([*self._placed(self.waiting), *numbers])
        if numbers != due[: len(numbers)]:
            return f"{listed(numbers)} arrived; the oldest were {listed(due)}"
        if any(arrived != sorted(arrived) for arrived in arrivals):
            return f"consumers got {'; '.join(map(listed, arrivals))}: not in order"
        return ""

    def take(self, numbers: Iterable[int]) -> None:
        """Deliver waiting messages."""
        taken = set(numbers)
        self.waiting = [number for number in self.waiting if number not in taken]
        self.delivered |= taken
