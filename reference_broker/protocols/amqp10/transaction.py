"""Work in a transaction until its discharge (part 4)."""

from typing import Any, Protocol

from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.amqp10.delivery import Delivery
from brokerproof.reference_broker.protocols.amqp10.message import AmqpMessage
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal


class Session(Protocol):
    def break_link(self, link: Any, problem: Refusal) -> None:
        """Close ``link`` with an error."""


class Controller(Protocol):
    @property
    def session(self) -> Session:
        """Return the link's session."""


class LiveTransaction:
    def __init__(self, id: bytes, coordinator: Controller, router: Router) -> None:
        self.id = id
        self.coordinator = coordinator
        self._router = router
        self._core = Transaction()
        self._outcomes: dict[Delivery, tuple[Any, bool]] = {}

    def send(self, message: AmqpMessage) -> None:
        """Hold ``message`` until the discharge."""
        self._core.send(message, self._router.charge_transaction(message))

    @property
    def doomed(self) -> str | None:
        """The reason why the transaction may only be rolled back; None if it may be committed."""
        return self._core.doomed

    def doom(self, reason: str) -> None:
        """Allow only a rollback from now on, because of ``reason`` or an earlier reason."""
        self._core.doom(reason)

    def retire(self, delivery: Delivery, outcome: Any, settled: bool) -> None:
        """Hold the peer's outcome for a delivery until the discharge. ``settled`` is true if the
        peer settled the delivery with it."""
        delivery.transaction = self
        self._outcomes[delivery] = outcome, settled

    def settled_meanwhile(self, delivery: Delivery, settled: bool) -> None:
        """Record that the peer settled a delivery before the discharge or that its link ended."""
        outcome, before = self._outcomes[delivery]
        self._outcomes[delivery] = outcome, before or settled
        if settled:
            delivery.link.forget([delivery])

    def commit(self) -> list[Queue]:
        """Apply all outcomes, then publish; return the queues to dispatch. Raises ``NoRoute``."""
        self._router.begin_atomic_unit()
        queues: dict[Queue, None] = {}
        for delivery, (outcome, settled) in self._outcomes.items():
            link = delivery.link
            delivery.transaction = None
            link.forget([delivery])
            link.apply([delivery], outcome)
            if not settled and link.is_attached:
                link.session.settled_by_us([delivery], outcome)
            queues[link.queue] = None
        self._core.commit(self._router.publish)
        return list(queues)

    def roll_back(self) -> list[Queue]:
        """Undo everything; return the queues to dispatch."""
        self._core.undo()
        queues: dict[Queue, None] = {}
        for delivery, (_, settled) in self._outcomes.items():
            delivery.transaction = None
            if settled:
                delivery.link.apply([delivery], delivery.link.default_outcome)
                queues[delivery.link.queue] = None
        return list(queues)
