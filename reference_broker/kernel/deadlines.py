"""A heap of deadlines with actions. Moving a deadline leaves its old entry in the heap, which is
skipped later."""

import heapq
from collections.abc import Callable
from typing import TypeAlias

from brokerproof.harness.model.time import Instant

Action: TypeAlias = Callable[[Instant], object]
"""Called with the instant at which the deadline is handled, which may be after it was due."""


class Deadline:
    """An action, and the instant at which it is due (None: not scheduled).

    ``conn`` is the connection that the action serves. The action does not run once the connection
    is forgotten, and may end it."""

    __slots__ = ("_deadlines", "action", "at", "conn", "ticket")

    def __init__(self, deadlines: "Deadlines", action: Action, conn: int | None) -> None:
        self._deadlines = deadlines
        self.action = action
        self.conn = conn
        self.at: Instant | None = None
        self.ticket = 0

    def move(self, at: Instant) -> None:
        """Reschedule the action to ``at``."""
        self._deadlines.push(self, at)

    def cancel(self) -> None:
        """Unschedule the action, if scheduled."""
        self._deadlines.remove(self)


class Deadlines:
    """All pending deadlines. At equal instants they run in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, int, Deadline]] = []
        self._pending = 0
        self._ticket = 0
        self._diverted: dict[int, Action] = {}

    def timer(self, action: Action, conn: int | None = None) -> Deadline:
        return Deadline(self, action, conn)

    def call_at(self, at: Instant, action: Action, conn: int | None = None) -> Deadline:
        deadline = Deadline(self, action, conn)
        self.push(deadline, at)
        return deadline

    def divert(self, conn: int, action: Action | None) -> None:
        """Run ``action`` instead of all other actions that serve ``conn``; None ends this."""
        if action is None:
            self._diverted.pop(conn, None)
        else:
            self._diverted[conn] = action

    def push(self, deadline: Deadline, at: Instant) -> None:
        """Put ``deadline`` into the heap, after others with the same instant."""
        self._ticket += 1
        self._pending += deadline.at is None
        deadline.at = at
        deadline.ticket = self._ticket
        heap = self._heap
        heapq.heappush(heap, (at, self._ticket, deadline))
        if len(heap) > 64 and len(heap) > 4 * self._pending:
            self._heap = [entry for entry in heap if entry[2].ticket == entry[1]]
            heapq.heapify(self._heap)

    def remove(self, deadline: Deadline) -> None:
        """Forget ``deadline`` until it is moved again."""
        self._pending -= deadline.at is not None
        deadline.at = None
        deadline.ticket = 0

    def next(self) -> Instant | None:
        """Return the earliest instant at which something is due; None if there is none."""
        heap = self._heap
        while heap:
            at, ticket, deadline = heap[0]
            if deadline.ticket == ticket:
                return at
            heapq.heappop(heap)
        return None

    def pop_due(self, now: Instant) -> Deadline | None:
        """Remove and return the earliest deadline due at ``now``, None if nothing is due."""
        at = self.next()
        if at is None or at > now:
            return None
        deadline = heapq.heappop(self._heap)[2]
        self.remove(deadline)
        return deadline

    def run(self, deadline: Deadline, now: Instant) -> None:
        """Run the action of ``deadline``, or the one to which its connection is diverted."""
        action = deadline.action
        if self._diverted and deadline.conn is not None:
            action = self._diverted.get(deadline.conn, action)
        action(now)
