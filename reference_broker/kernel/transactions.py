"""Transactions: sends and settlements that take effect together at COMMIT, or not at all.

A send is held back until COMMIT. A settlement frees its subscription's window at once: the client
has finished with the message, so the client's buffer is free (ARTEMIS-STOMP-window-2 speaks of
*sending* the ACK). But the queue learns of the settlement only at COMMIT. Messages held back are
charged to their address's memory. After an ABORT, which DISCONNECT and a lost connection imply
(STOMP12-BEGIN-04), every message whose settlement was undone returns to its queue as a failed
delivery and is redelivered."""

from collections.abc import Callable

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.kernel.message import Entry, Message, ResourceClaim
from brokerproof.reference_broker.kernel.queue import Queue


class Transaction:
    """One open transaction. Either ``commit`` or ``undo`` is called, and only once."""

    def __init__(self) -> None:
        self._sends: list[tuple[Message, ResourceClaim]] = []
        self._settlements: list[tuple[Queue, list[Entry], Outcome]] = []
        self.doomed: str | None = None
        """The reason why the transaction may only be rolled back; None if it may be committed."""

    def doom(self, reason: str) -> None:
        """Allow only a rollback from now on, because of ``reason`` or an earlier reason."""
        self.doomed = self.doomed or reason

    def send(self, message: Message, charge: ResourceClaim) -> None:
        """Hold ``message`` until COMMIT, and the message's memory until the end."""
        self._sends.append((message, charge))

    def settle(self, queue: Queue, entries: list[Entry], outcome: Outcome) -> None:
        """Hold the settlement of ``entries`` until COMMIT."""
        self._settlements.append((queue, entries, outcome))

    def commit(self, publish: Callable[[Message], object]) -> list[Queue]:
        """Settle and publish everything in the requested order; return the queues to dispatch."""
        for queue, entries, outcome in self._settlements:
            queue.settle(entries, outcome)
        sends = iter(self._sends)
        try:
            for message, charge in sends:
                charge.release()  # from now on it is charged to the queues that it reaches
                publish(message)
        finally:
            for _, charge in sends:
                charge.release()
        return self._queues()

    def undo(self) -> list[Queue]:
        """Drop the sends and return the settled messages; return the queues to dispatch."""
        for _, charge in self._sends:
            charge.release()
        undone: dict[Queue, list[Entry]] = {}
        for queue, entries, _ in self._settlements:
            undone.setdefault(queue, []).extend(entries)
        for queue, entries in undone.items():
            queue.settle(entries, Outcome.MODIFIED)
        return list(undone)

    def _queues(self) -> list[Queue]:
        return list(dict.fromkeys(queue for queue, _, _ in self._settlements))
