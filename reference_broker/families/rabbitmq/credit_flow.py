"""Credit between a sender and a receiver of messages, like RabbitMQ's (RABBITMQ-FLOW-conn-2).

The sender begins with credit for :data:`INITIAL` messages. The receiver grants :data:`MORE`
whenever it has processed as many. A sender without credit is blocked; if it is a receiver itself,
it continues to process its input, but grants nothing until it has credit again. So a slow end of a
chain stops its beginning::

    connection -> channel -> queue

The connection stops reading when it is blocked, between one and two times :data:`INITIAL` messages
after the first that the queue has not processed. Then the transport blocks the client.
"""

from collections import deque
from collections.abc import Callable

from brokerproof.harness.model.time import NS_PER_S, Instant
from brokerproof.reference_broker.kernel.deadlines import Deadlines
from brokerproof.reference_broker.kernel.queue import Queue

INITIAL, MORE = 400, 200
"""In messages: ``credit_flow_default_credit`` of releases 3.10 and 4.0."""


class CreditFlow:
    def __init__(self) -> None:
        self._left = INITIAL
        self._until_more = MORE

    @property
    def blocked(self) -> bool:
        """Return True if the sender has no credit left."""
        return self._left <= 0

    def send(self) -> None:
        """Spend the credit for one message."""
        self._left -= 1

    def worked(self) -> int:
        """Record that the receiver has processed one message; return the credit it now owes."""
        self._until_more -= 1
        if self._until_more:
            return 0
        self._until_more = MORE
        return MORE

    def grant(self, credit: int) -> None:
        self._left += credit


class Pace:
    """Queues, each of which processes ``rate`` messages per second, one by one.

    ``now`` returns the instant of the current input.
    """

    def __init__(self, rate: int, deadlines: Deadlines, now: Callable[[], Instant]) -> None:
        self._step = NS_PER_S // rate
        self._deadlines = deadlines
        self._now = now
        self._waiting: dict[Queue, deque[Callable[[], None]]] = {}

    def hand(self, queue: Queue, work: Callable[[], None]) -> None:
        """Do ``work`` after all earlier work of ``queue``."""
        waiting = self._waiting.get(queue)
        if waiting is None:
            waiting = self._waiting[queue] = deque()
            self._next(queue, self._now())
        waiting.append(work)

    def _next(self, queue: Queue, since: Instant) -> None:
        due = since + self._step
        self._deadlines.call_at(due, lambda now: self._work(queue, due))

    def _work(self, queue: Queue, due: Instant) -> None:
        waiting = self._waiting[queue]
        waiting.popleft()()
        if waiting:
            self._next(queue, due)
        else:
            del self._waiting[queue]
