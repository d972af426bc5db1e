"""Transactions (part 4): a link to the coordinator, and work under a transaction's id.

::

    peer                                            here
    attach, target coordinator  ---------------->
    transfer: declare           ---------------->
                                <----------------   disposition: declared, with a txn-id
    transfers and dispositions with that txn-id --->
                                <----------------   disposition: transactional-state, with the outcome to come
    transfer: discharge         ---------------->   all of it happens, or with ``fail`` none of it
                                <----------------   disposition: accepted

* A message posted in a transaction is held until the discharge (AMQP10-TXN-06).
* An outcome sent in a transaction is kept, and applied at the discharge (AMQP10-TXN-09). If the
  peer settled with it, a rollback gives the message the source's default outcome (AMQP10-TXN-13);
  if it did not, the delivery simply stays with the peer (AMQP10-TXN-10).
* A transaction belongs to the link that declared it, and is rolled back when that link ends, for
  whatever reason (AMQP10-TXN-14). Other links and sessions of the same connection may use it.
* A failed operation (AMQP10-TXN-15) dooms its transaction: a discharge without ``fail`` is then
  rejected, and rolls back.
"""  # noqa: E501

import struct
from typing import Any

from brokerproof.reference_broker.kernel.address_book import NoRoute
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp10 import conditions, refusal
from brokerproof.reference_broker.protocols.amqp10.composite import (
    Composite,
    InvalidField,
    descriptor,
)
from brokerproof.reference_broker.protocols.amqp10.decoder import DEPTH, DecodeError
from brokerproof.reference_broker.protocols.amqp10.delivery import Arrival, Delivery, SendingLink
from brokerproof.reference_broker.protocols.amqp10.incoming import ACCEPTED, IncomingLink
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    AMQP_VALUE,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    TransactionalState,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import Attach
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.sections import BadMessage, sections
from brokerproof.reference_broker.protocols.amqp10.transaction import LiveTransaction
from brokerproof.reference_broker.protocols.amqp10.types import Symbol

CAPABILITIES = (
    Symbol("amqp:local-transactions"),
    Symbol("amqp:multi-txns-per-ssn"),
    Symbol("amqp:multi-ssns-per-txn"),
)
CREDIT = 100
"""Declares and discharges that a controller may send ahead of our answers."""


class CoordinatorLink(IncomingLink):
    """A link on which the peer sends declares and discharges."""

    def attach(self, attach: Attach) -> None:
        self.begin(attach)
        self._opened: dict[bytes, LiveTransaction] = {}
        answer = self.answer(attach)
        answer.source = attach.source
        answer.target = Coordinator(capabilities=CAPABILITIES)
        self.session.send(answer)
        self.refill()

    def refill(self) -> None:
        if self.credit.credit <= CREDIT // 2:
            self.credit.grant(CREDIT - self.credit.credit)
            self.session.flow(self)

    def arrived(self, arrival: Arrival) -> Any:
        try:
            asked = _asked(arrival.payload())
        except BadMessage as problem:
            return self._failed(arrival, conditions.DECODE_ERROR, str(problem))
        if isinstance(asked, Declare):
            return self._declare(arrival, asked)
        return self._discharge(arrival, asked)

    def _declare(self, arrival: Arrival, declare: Declare) -> Any:
        if arrival.settled:
            raise Refusal(
                refusal.DECLARE_SETTLED,
                "a declare was sent settled, so its txn-id cannot be returned",
            )
        if declare.global_id is not None:
            return self._failed(
                arrival, conditions.NOT_IMPLEMENTED, "this broker has no distributed transactions"
            )
        connection = self.session.connection
        shared = self.session.shared
        excess = shared.settings.quotas.exceeded("transactions", len(connection.transactions))
        if excess is not None:
            return self._failed(arrival, conditions.RESOURCE_LIMIT_EXCEEDED, excess)
        id = shared.next_consumer().to_bytes(8)
        transaction = LiveTransaction(id, self, shared.router)
        self._opened[id] = connection.transactions[id] = transaction
        return Declared(txn_id=id)

    def _discharge(self, arrival: Arrival, discharge: Discharge) -> Any:
        transaction = self._opened.pop(discharge.txn_id, None)
        if transaction is None:
            return self._failed(
                arrival, conditions.UNKNOWN_ID, "the txn-id to discharge is unknown on this link"
            )
        connection = self.session.connection
        del connection.transactions[discharge.txn_id]
        if (
            not discharge.fail
            and transaction.doomed is None
            and transaction.id in connection.posting
        ):
            self._finish(transaction.roll_back())
            detail = "discharge precedes the last transfer of a delivery in its transaction"
            raise Refusal(refusal.DISCHARGE_TOO_EARLY, detail)
        if discharge.fail or transaction.doomed is not None:
            self._finish(transaction.roll_back())
            if discharge.fail:
                return ACCEPTED
            return self._failed(arrival, conditions.TRANSACTION_ROLLBACK, str(transaction.doomed))
        try:
            self._finish(transaction.commit())
        except NoRoute as problem:
            return self._failed(arrival, conditions.TRANSACTION_ROLLBACK, str(problem))
        return ACCEPTED

    def _failed(self, arrival: Arrival, condition: str, description: str) -> Any:
        """Reject an unsettled message if the peer's source supports that; otherwise end the link
        (AMQP10-TXN-03, -04)."""
        if arrival.settled or not self._knows_rejected:
            fault = refusal.Fault(refusal.Scope.LINK, condition, "AMQP10-TXN-04")
            raise Refusal(fault, description)
        return self._not_taken(condition, description)

    def _finish(self, queues: list[Queue]) -> None:
        for queue in queues:
            queue.dispatch()
            self.session.shared.router.addresses.tidy(queue)

    def stop(self) -> None:
        self._set(None)

    def give_back(self) -> list[Queue]:
        queues: list[Queue] = []
        for id, transaction in self._opened.items():
            del self.session.connection.transactions[id]
            queues += transaction.roll_back()
        self._opened.clear()
        return queues


def retire(
    transactions: dict[bytes, LiveTransaction],
    link: SendingLink,
    deliveries: list[Delivery],
    state: TransactionalState,
    settled: bool,
) -> None:
    """Apply the outcomes that the peer sent in a transaction. Raises :class:`Refusal`."""
    transaction = transactions.get(state.txn_id)
    if transaction is None:
        raise Refusal(refusal.NO_TRANSACTION, "the txn-id of a disposition is unknown")
    outcome = state.outcome if state.outcome is not None else link.default_outcome
    if isinstance(outcome, Declared):
        raise Refusal(refusal.BAD_DEFAULT_OUTCOME, "declared is not an outcome of a message")
    for delivery in deliveries:
        other = delivery.transaction
        if other is not None and other is not transaction:
            control = transaction.coordinator
            detail = f"delivery {delivery.id} has an outcome in another transaction already"
            control.session.break_link(control, Refusal(refusal.IN_ANOTHER_TRANSACTION, detail))
            return
    for delivery in deliveries:
        transaction.retire(delivery, outcome, settled)
    if settled:
        link.forget(deliveries)


def _asked(data: bytes) -> Declare | Discharge:
    """Return the declare or discharge in a message. Raises :class:`BadMessage`."""
    values = [inside for code, _, inside, _ in sections(data) if code == AMQP_VALUE]
    kinds: dict[int | None, type[Composite]] = {Declare.CODE: Declare, Discharge.CODE: Discharge}
    try:
        if values and data[values[0]] == 0:
            code, at = descriptor(data, values[0] + 1)
            kind = kinds.get(code)
            if kind is not None:
                return kind.read(data, at, DEPTH)[0]  # type: ignore[return-value]
    except (IndexError, struct.error, DecodeError, InvalidField) as problem:
        raise BadMessage(f"neither declare nor discharge: {problem}") from None
    raise BadMessage("the message is neither declare nor discharge")
