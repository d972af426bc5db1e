"""State of a transactional channel until tx.commit (class tx): routed messages and settlements."""

from dataclasses import dataclass, field

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp091.consumer import Unacked
from brokerproof.reference_broker.protocols.amqp091.message import Amqp091Message


@dataclass(slots=True)
class Transaction:
    """Sends and settlements, each in the order requested."""

    sends: list[tuple[Amqp091Message, list[Queue], bool]] = field(default_factory=list)
    """Messages, their queues, and whether they are mandatory."""
    settlements: list[tuple[list[Unacked], Outcome]] = field(default_factory=list)

    def undo(self) -> list[Unacked]:
        """Discard everything; return the deliveries whose settlement is undone, oldest first."""
        back = [delivery for group, _ in self.settlements for delivery in group]
        self.sends, self.settlements = [], []
        return sorted(back, key=lambda delivery: delivery.tag)
