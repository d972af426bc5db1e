"""A link whose deliveries may have to wait for space
(:mod:`brokerproof.reference_broker.families.activemq.producer_flow`).

Every delivery, even a settled one, is treated as a send that waits for an answer. Without space, a
delivery is settled only once it has been added. Until then it is unanswered, so its link gets no
credit for it. Other links and deliveries continue. If the whole connection must wait, its input is
not handled until there is space. A delivery that fails is rejected with
``amqp:resource-limit-exceeded``; its link is not affected.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from brokerproof.reference_broker.families.activemq.producer_flow import (
    NoSpace,
    PendingSend,
    ProducerFlow,
    SendOutcome,
)
from brokerproof.reference_broker.kernel.address_book import NoRoute
from brokerproof.reference_broker.kernel.outbox import PauseReason
from brokerproof.reference_broker.protocols.amqp10 import conditions
from brokerproof.reference_broker.protocols.amqp10.incoming import ACCEPTED, IncomingLink
from brokerproof.reference_broker.protocols.amqp10.link import LinkState
from brokerproof.reference_broker.protocols.amqp10.message import AmqpMessage
from brokerproof.reference_broker.protocols.amqp10.performatives import Attach

if TYPE_CHECKING:
    from brokerproof.reference_broker.protocols.amqp10.delivery import Arrival
    from brokerproof.reference_broker.protocols.amqp10.link import Session
    from brokerproof.reference_broker.protocols.amqp10.transaction import LiveTransaction


class WaitingLink(IncomingLink):
    """A link on which the peer sends; its deliveries may have to wait for space, as ``flow``
    decides.
    """

    def __init__(
        self, session: Session, attach: Attach, our_handle: int, flow: ProducerFlow
    ) -> None:
        super().__init__(session, attach, our_handle)
        self._flow = flow
        self._waiting = 0
        self._stalled: tuple[Arrival, PendingSend] | None = None

    @property
    def unanswered(self) -> int:
        return super().unanswered + self._waiting

    def take(
        self, message: AmqpMessage, arrival: Arrival, transaction: LiveTransaction | None
    ) -> Any:
        shared, connection = self.session.shared, self.session.connection
        address = message.route.address
        sending = PendingSend(
            message,
            address,
            message.durable,
            answered=True,
            publish=partial(
                self.publish, message, None if transaction is None else transaction.send
            ),
            settled=partial(self._settled, arrival, transaction),
            is_live=lambda: (
                transaction is None or connection.transactions.get(transaction.id) is transaction
            ),
        )
        try:
            fate = self._flow.send(sending)
        except NoSpace as problem:
            return self._not_taken(conditions.RESOURCE_LIMIT_EXCEEDED, str(problem))
        except NoRoute as problem:
            return self._not_taken(conditions.NOT_FOUND, str(problem))
        if fate is SendOutcome.TAKEN:
            return ACCEPTED
        self._waiting += 1
        if fate is SendOutcome.STALLED:
            self._stalled, connection.stalled = (arrival, sending), True
            shared.outbox.stop_reading(connection.conn, PauseReason.ROOM)
            connection.observe(
                "ACTIVEMQ-PFC-8", f"no space at {address}: the connection is not read"
            )
        else:
            connection.observe(
                "ACTIVEMQ-PFC-3", f"no space at {address}: the delivery is not settled"
            )
        return None

    def _settled(
        self, arrival: Arrival, transaction: LiveTransaction | None, problem: NoSpace | None
    ) -> None:
        """Settle a delivery that had to wait and was then added, or failed with ``problem``."""
        self._waiting -= 1
        connection = self.session.connection
        if self.state is LinkState.ATTACHED:
            refused = (
                None
                if problem is None
                else self._not_taken(conditions.RESOURCE_LIMIT_EXCEEDED, str(problem))
            )
            state = self.reported_state(
                ACCEPTED if refused is None else refused, arrival, transaction
            )
            if not arrival.settled:
                self.session.settle_incoming(arrival.id, state)
            self.refill()
            self.session.flush()
        if self._stalled is not None and self._stalled[0] is arrival:
            self._stalled, connection.stalled = None, False
            self.session.shared.outbox.resume_reading(connection.conn, PauseReason.ROOM)
            connection.receive(self.session.shared.clock.now, b"")

    def stop(self) -> None:
        super().stop()
        stalled, self._stalled = self._stalled, None
        if stalled is not None:
            self._flow.left(stalled[1])
