"""Local transactions of OpenWire: sends and acknowledgements that take effect together, or not at
all.

A message acknowledged in a transaction stays with its consumer until the end, even after a
rollback: the client redelivers it itself, without notifying the broker (release 6.3.1,
PrefetchSubscription.registerRemoveSync).
"""

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.kernel.message import Message, ResourceClaim
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.openwire.consumer import OpenWireConsumer


class OpenWireTransaction:
    def __init__(self, router: Router) -> None:
        self._router = router
        self.sends = Transaction()
        self._acknowledged: list[tuple[OpenWireConsumer, tuple[int, int]]] = []
        self.is_live = True

    def send(self, message: Message, charge: ResourceClaim) -> None:
        """Hold ``message`` and its claim on resources until the end of the transaction."""
        self.sends.send(message, charge)

    def settle(self, consumer: OpenWireConsumer, places: tuple[int, int]) -> None:
        """Hold the acknowledgement of the messages in ``places`` until the commit."""
        self._acknowledged.append((consumer, places))

    def commit(self) -> None:
        """Settle and publish everything. Raises ``NoRoute``."""
        self.is_live = False
        self._router.begin_atomic_unit()
        for consumer, places in self._acknowledged:
            consumer.settle(places, Outcome.ACCEPTED)
        self.sends.commit(self._router.publish)
        for consumer, _ in self._acknowledged:
            consumer.offer()

    def roll_back(self) -> None:
        self.is_live = False
        for consumer, places in self._acknowledged:
            consumer.undone(places)
        self.sends.undo()
