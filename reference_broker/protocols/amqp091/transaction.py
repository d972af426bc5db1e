"""What a transactional channel holds until tx.commit (class tx): messages with where they go, and
settlements."""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp091.consumer import Unacked
from brokerproof.reference_broker.protocols.amqp091.message import Amqp091Message


@dataclass(slots=True)
class Transaction:
    """Both lists in the order in which it was asked for."""

    sends: list[tuple[Amqp091Message, list[Queue], bool]] = field(default_factory=list)
    """A message, its queues, and whether it is mandatory."""
    settlements: list[tuple[list[Unacked], Outcome]] = field(default_factory=list)

    def undo(self) -> list[Unacked]:
        """Forgets everything; returns the deliveries whose settlement is undone, oldest first."""
        back = [delivery for group, _ in self.settlements for delivery in group]
        self.sends, self.settlements = [], []
        return sorted(back, key=lambda delivery: delivery.tag)
