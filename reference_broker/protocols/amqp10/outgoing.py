"""Links on which we send: the consumers of queues (2.6.7, 2.6.12, 3.3, 3.4).

A delivery needs a message, link credit, and room in the session's window. The queue checks the last
two (``has_room``) and supplies the message (``deliver``).

Settlement
----------
* Link mode settled: a message is settled when it is sent.
* Otherwise it stays with the link until the peer settles it, with or without an outcome (without:
  the source's default outcome, AMQP10-OUT-03), or sends an outcome and leaves settling to us; then
  we settle and report it.
* Messages left when the link ends are released: they return to their old places, and this does not
  count as an attempt.

=========  =======================================================  ==============
outcome    the message                                              delivery-count
=========  =======================================================  ==============
accepted   is gone                                                  --
rejected   is dead-lettered, with the error                         + 1
released   returns to its place                                     unchanged
modified   returns; with undeliverable-here, never to this link     + 1 if delivery-failed
=========  =======================================================  ==============

A link in ``copy`` mode only browses: it gets each waiting message once, and its outcomes have no
effect.
"""

from typing import Any

from brokerproof.harness.model.enums import Outcome, RoutingType
from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.kernel.address_book import NoRoute
from brokerproof.reference_broker.kernel.credit import SenderCredit
from brokerproof.reference_broker.kernel.large_body import LargeBody
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp10 import coordinator, refusal, terminus
from brokerproof.reference_broker.protocols.amqp10.delivery import (
    Delivery,
    fits,
    transfers,
    whole_transfer,
)
from brokerproof.reference_broker.protocols.amqp10.filters import selector_of
from brokerproof.reference_broker.protocols.amqp10.large_messages import LargeTransfers
from brokerproof.reference_broker.protocols.amqp10.link import Link, Session
from brokerproof.reference_broker.protocols.amqp10.message import notes_of
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    COPY,
    LINK_DETACH,
    MOVE,
    OUTCOMES,
    Accepted,
    Declared,
    Modified,
    Received,
    Rejected,
    Released,
    Source,
    TransactionalState,
)
from brokerproof.reference_broker.protocols.amqp10.outgoing_message import encoded
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    SETTLED,
    UINT_MAX,
    Attach,
    Flow,
    Transfer,
)
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.types import Symbol
from brokerproof.reference_broker.selector.selector import Selector

_SYMBOLS = tuple(Symbol(f"amqp:{outcome.NAME}:list") for outcome in OUTCOMES)


class OutgoingLink(Link):
    """A link on which the peer receives: a
    :class:`brokerproof.reference_broker.kernel.queue.Consumer`, or a ``Browser`` if ``copies``."""

    queue: Queue

    def __init__(self, session: Session, attach: Attach, our_handle: int) -> None:
        super().__init__(session, attach, our_handle)
        self.rcv_settle_mode = attach.rcv_settle_mode
        self.credit = SenderCredit(session.connection.acceptor.amqp.first_delivery_count)
        self.copies = False
        self.cursor = 0
        self.default_outcome: Any = Released()
        self._largest = attach.max_message_size or 0
        self._presettled = attach.snd_settle_mode == SETTLED
        self._drain_due = False
        self._tag = 0
        self._dynamic: str | None = None
        self._selector: Selector | None = None
        self._stopped = True

    # --- beginning --------------------------------------------------------------------------------

    def attach(self, attach: Attach) -> None:
        source = attach.source
        if source is None:
            raise Refusal(refusal.NO_TERMINUS, "attach of a receiver has no source")
        self._check(source)
        address, routing = self._address(source)
        try:
            self.queue = self.session.shared.router.subscription(address, routing, self._selector)
        except NoRoute as problem:
            raise Refusal(refusal.NOT_FOUND, str(problem)) from None
        answer = self.answer(attach)
        answer.initial_delivery_count = self.credit.count
        answer.target = attach.target
        answer.source = Source(
            address=address if source.dynamic else source.address,
            expiry_policy=LINK_DETACH,
            dynamic=source.dynamic,
            dynamic_node_properties=source.dynamic_node_properties if source.dynamic else None,
            filter=source.filter,
            distribution_mode=Symbol(COPY if self.copies else MOVE),
            default_outcome=self.default_outcome,
            outcomes=source.outcomes or _SYMBOLS,
            capabilities=tuple(
                capability
                for capability in source.capabilities
                if capability in terminus.CAPABILITIES
            ),
        )
        self.session.send(answer)
        self._stopped = False
        if self.copies:
            self.queue.browsers.add(self)
        else:
            self.queue.add_consumer(
                self, self._selector if self.queue.routing is RoutingType.ANYCAST else None
            )

    def _check(self, source: Source) -> None:
        """Refuse a source that this broker cannot serve. The answer shows the differences
        (AMQP10-LINK-05)."""
        if source.dynamic and source.address is not None:
            raise Refusal(refusal.ADDRESS_AND_DYNAMIC, "a dynamic source names no address")
        self._selector = selector_of(source.filter)
        if source.distribution_mode not in (None, MOVE, COPY):
            detail = (
                "this broker supports the distribution modes move and copy, not"
                f" {refusal.shown(source.distribution_mode)}"
            )
            raise Refusal(refusal.NOT_SUPPORTED, detail)
        unknown = [outcome for outcome in source.outcomes if outcome not in _SYMBOLS]
        if unknown:
            raise Refusal(
                refusal.BAD_OUTCOMES,
                f"{refusal.shown(unknown[0])} is not an outcome that this broker supports",
            )
        if source.default_outcome is not None:
            if isinstance(source.default_outcome, Declared):
                raise Refusal(
                    refusal.BAD_DEFAULT_OUTCOME,
                    "declared is not an outcome that this broker supports",
                )
            self.default_outcome = source.default_outcome
        self.copies = source.distribution_mode == COPY

    def _address(self, source: Source) -> tuple[str, RoutingType | None]:
        session = self.session
        if source.dynamic:
            number = session.shared.next_consumer()
            routing = terminus.wanted_routing(source.capabilities) or RoutingType.ANYCAST
            name = terminus.dynamic_name(session.connection.container, self.name, number)
            self._dynamic = terminus.placed(session.connection.shared.family, name, routing)
            return self._dynamic, routing
        if not source.address:
            raise Refusal(refusal.NO_TERMINUS, "the source has no address, and is not dynamic")
        connection = session.connection
        return terminus.where(
            connection.acceptor, connection.shared.family, source.address, source.capabilities
        )

    # --- deliveries -------------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Return True if one more message can be sent now. A link that waits only for its session
        is resumed later."""
        if self.credit.credit <= 0 or self._stopped:
            return False
        if self.session.can_send():
            return True
        self.session.blocked[self] = None
        return False

    def wait_for(self, batch: int) -> None:
        """Hold output until ``batch`` is stored."""
        self.session.shared.outbox.wait_for(self.session.connection.conn, batch)

    def deliver(self, entry: Entry) -> None:
        session = self.session
        entry.deliveries += 1
        payload, large = encoded(entry, session.shared.clock.unix()), entry.message.large
        size = len(payload) + (0 if large is None else large.length)
        if 0 < self._largest < size:
            self._too_large(entry, size)
            return
        id = session.next_delivery_id
        session.next_delivery_id = (id + 1) & serial_numbers.MASK
        if not self._presettled:
            self.unsettled[id] = delivery = Delivery(id, self, entry)
            session.add_unsettled(delivery)
            if not self.copies:
                self.queue.unsettled += 1
        self._send(id, payload, large)
        if self._presettled and not self.copies:
            self.queue.discard(entry)

    def show(self, entry: Entry) -> None:
        """Send a copy of one message if the selector selects it."""
        if self._selector is None or self._selector.matches(entry.message):
            self.deliver(entry)

    def _send(self, id: int, payload: bytes, large: LargeBody | None) -> None:
        session = self.session
        self.credit.spend()
        self._tag = tag = (self._tag + 1) & serial_numbers.MASK
        largest = session.connection.peer_max_frame_size
        settled = self._presettled
        if large is not None:
            connection = session.connection
            first = session.our_channel, self.our_handle, id, tag.to_bytes(4), settled
            pieces = LargeTransfers(
                first, payload, large, largest, session.resume, connection.broken
            )
            session.transmit_all(self, pieces)
        elif fits(payload, largest):
            channel = session.our_channel
            session.transmit(
                whole_transfer(channel, self.our_handle, id, tag.to_bytes(4), settled, payload)
            )
        else:
            frames = transfers(
                session.our_channel, self.our_handle, id, tag.to_bytes(4), settled, payload, largest
            )
            session.transmit_all(self, frames)

    def _too_large(self, entry: Entry, size: int) -> None:
        """Return the message to its queue and end the link, because the peer does not accept
        messages of this size (AMQP10-LINK-15)."""
        if self.copies:
            entry.deliveries -= 1
        else:
            entry.deliveries -= 1
            self.queue.unsettled += 1
            self.queue.settle([entry], Outcome.RELEASED)
        detail = f"a message of {size} bytes is next, but the link accepts {self._largest}"
        self.session.break_link(self, Refusal(refusal.TOO_LARGE, detail))

    # --- flow -------------------------------------------------------------------------------------

    def flow(self, flow: Flow) -> None:
        if flow.properties and "txn-id" in flow.properties:
            raise Refusal(
                refusal.NO_TRANSACTIONAL_ACQUISITION,
                "this broker does not send within transactions",
            )
        credit = self.credit
        if flow.link_credit is not None and not credit.flow(
            flow.delivery_count, flow.link_credit, flow.drain
        ):
            detail = (
                f"delivery-count {flow.delivery_count} is ahead of ours, {credit.count}, and only"
                " the sender advances it"
            )
            raise Refusal(refusal.COUNT_FROM_THE_FUTURE, detail)
        self._drain_due = flow.drain
        self.offer()
        if flow.echo and not flow.drain:
            self.session.flow(self)

    def offer(self) -> None:
        """Take waiting messages while they can be sent, then answer a drain."""
        if self._stopped:
            return
        if self.copies:
            self.queue.browsers.offer(self)
        else:
            self.queue.dispatch()
        if self._drain_due and self.credit.credit and self.queue.when_read(self.offer):
            return  # messages are still being read from disk
        if (
            self._drain_due
            and not self._stopped
            and (self.credit.credit == 0 or self.session.can_send())
        ):
            self._drain_due = False
            if self.credit.credit:
                detail = (
                    f"drained: delivery-count goes up by the {self.credit.credit} credits that are"
                    " left"
                )
                self.session.connection.observe("AMQP10-CREDIT-12", detail)
                self.credit.drained()
            self.session.flow(self)
        elif self._drain_due and not self._stopped:
            self.session.blocked[self] = None

    def resume(self) -> None:
        if self.credit.credit or self._drain_due:
            self.offer()

    def describe(self, flow: Flow) -> None:
        flow.handle = self.our_handle
        flow.delivery_count = self.credit.count
        flow.link_credit = self.credit.credit
        waiting = (
            self.queue.browsers.unseen(self, self._selector)
            if self.copies
            else self.queue.available(self)
        )
        flow.available = min(UINT_MAX, waiting)
        flow.drain = self.credit.drain

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        raise Refusal(
            refusal.TRANSFER_TO_A_SENDER,
            "received a transfer on a link on which the peer is the receiver",
        )

    # --- settlement -------------------------------------------------------------------------------

    def disposed(self, deliveries: list[Delivery], state: Any, settled: bool) -> None:
        """Apply the peer's state to some deliveries. The caller then calls ``offer()``."""
        if isinstance(state, TransactionalState):
            transactions = self.session.connection.transactions
            coordinator.retire(transactions, self, deliveries, state, settled)
            return
        if state is None or isinstance(state, Received):
            if not settled:
                return
            state = self.default_outcome
        elif isinstance(state, Declared):
            raise Refusal(refusal.BAD_DEFAULT_OUTCOME, "declared is not an outcome of a message")
        plain = [delivery for delivery in deliveries if delivery.transaction is None]
        for delivery in deliveries:
            if delivery.transaction is not None:
                delivery.transaction.settled_meanwhile(delivery, settled)
        self.forget(plain)
        self.apply(plain, state)
        if not settled:
            self.session.settled_by_us(plain, state)

    def forget(self, deliveries: list[Delivery]) -> None:
        """Drop ``deliveries``, which the session considers settled."""
        self.session.forget(deliveries)
        for delivery in deliveries:
            self.unsettled.pop(delivery.id, None)

    def apply(self, deliveries: list[Delivery], state: Any) -> None:
        """Settle deliveries with the outcome ``state``, but do not dispatch returned messages."""
        if self.copies:
            return
        entries = [delivery.entry for delivery in deliveries]
        outcome = Outcome.ACCEPTED
        match state:
            case Accepted():
                pass
            case Rejected(error=error):
                outcome = Outcome.REJECTED
                if error is not None:
                    for entry in entries:
                        notes_of(entry).rejected = error
            case Modified(
                delivery_failed=failed, undeliverable_here=not_here, message_annotations=annotations
            ):
                outcome = Outcome.MODIFIED if failed else Outcome.RELEASED
                for entry in entries:
                    if not_here:
                        entry.barred = (*(entry.barred or ()), self)
                    if annotations:
                        notes_of(entry).annotations |= annotations
            case _:
                outcome = Outcome.RELEASED
        self.queue.settle(entries, outcome)

    # --- the end ----------------------------------------------------------------------------------

    def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        self.session.blocked.pop(self, None)
        if self.copies:
            self.queue.browsers.remove(self)
        else:
            self.queue.remove_consumer(self)

    def give_back(self) -> list[Queue]:
        deliveries = list(self.unsettled.values())
        self.forget(deliveries)
        plain = [delivery for delivery in deliveries if delivery.transaction is None]
        for delivery in deliveries:
            if delivery.transaction is not None:
                delivery.transaction.settled_meanwhile(delivery, True)
        self.apply(plain, self.default_outcome)
        if self._dynamic is not None:
            self.session.shared.router.addresses.remove(self._dynamic)
        return [self.queue]
