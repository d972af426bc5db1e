"""A queue that tells the cursor of its destination what is handed out and what comes back; so does the queue of a subscription
to a topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.words import Outcome, RoutingType
from reference_broker.core.cursor import QueueClaim
from reference_broker.core.message import Claim, Entry, Message
from reference_broker.core.queue import Consumer, Queue
from reference_broker.core.usage_accounting import TopicClaim
from reference_broker.storage.codec import is_durable


class CursorQueue(Queue):
    """What is given up and is not persistent does not become a dead letter (``AbstractDeadLetterStrategy``)."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        bury: Callable[[Queue, Entry], None] = self._bury
        self._bury = lambda queue, entry: bury(queue, entry) if is_durable(entry.message) else None

    def put(self, message: Message, given_up: Entry | None = None, charge: Claim | None = None) -> None:
        if isinstance(charge, QueueClaim):
            charge.cursor.drop = self._drop
        super().put(message, given_up, charge)
        if isinstance(charge, QueueClaim) and self.has_consumers:
            charge.cursor.page_in()

    def dispatch(self) -> None:
        super().dispatch()
        if self._ready and self.has_consumers and isinstance(charge := self._ready[-1].charge, QueueClaim):
            charge.cursor.page_in()

    def hand(self, consumer: Consumer, entry: Entry) -> None:
        if isinstance(entry.charge, QueueClaim):
            entry.charge.handed()
        elif isinstance(entry.charge, TopicClaim) and not entry.deliveries:
            entry.charge.sent()
        super().hand(consumer, entry)

    def settle(self, entries: Sequence[Entry], outcome: Outcome) -> None:
        for each in entries:
            if isinstance(each.charge, QueueClaim):
                each.charge.back()  # what is settled for good leaves from there
        super().settle(entries, outcome)

    def gone(self, entry: Entry) -> None:
        if isinstance(entry.charge, TopicClaim) and not entry.deliveries and self.routing is RoutingType.MULTICAST:
            entry.charge.sent()
        super().gone(entry)

    def _drop(self, claim: QueueClaim) -> None:
        """There is no room for ``claim``, which waits."""
        entry = next((each for each in self._ready if each.charge is claim), None)
        if entry is not None:
            self._ready.remove(entry)
            self.gone(entry)
