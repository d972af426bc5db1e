"""Producers' credit: ``amqpCredits`` and ``amqpLowCredits`` (ARTEMIS-FLOW, chapter AMQP).

Let C be the credits, L the low mark, c the remaining credit, and p the deliveries that have begun
to arrive and are unanswered.

1. Nothing is done while c > L - p.
2. Otherwise the credit is raised by C - c - p, so that credit and unanswered deliveries again add
   up to C. A producer never has more than C outstanding.
3. While the address has no room, nothing is granted. Earlier grants stay valid: a producer can use
   up its credit at a full address. Once there is room again, rules 1 and 2 are reapplied.

The rules are applied after every delivery, so the times of refills do not depend on how many frames
arrive together: with C = 100 and L = 30, refills follow after 70 deliveries, then 140.
"""

from collections.abc import Callable

from brokerproof.reference_broker.kernel.admission import AdmissionControl
from brokerproof.reference_broker.kernel.credit import ReceiverCredit


class ProducerCredit:
    """The rule for one producer. ``address`` is its own, or the last that it named in a message."""

    def __init__(self, most: int, low: int, admission: AdmissionControl, address: str) -> None:
        self.most = most
        self.low = low
        self.address = address
        self._admission = admission

    def refill(self, credit: ReceiverCredit, unanswered: int, on_room: Callable[[], None]) -> int:
        """Return how many deliveries to grant now; if 0 for lack of room, ``on_room`` is called
        later."""
        if credit.credit > self.low - unanswered:
            return 0
        more = self.most - credit.credit - unanswered
        if more <= 0 or not self._admission.has_room(self.address, on_room):
            return 0
        return more
