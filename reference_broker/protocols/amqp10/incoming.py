"""Links on which we receive: producers (2.6.7, 2.6.12, 2.6.14).

A delivery arrives in one or more transfers; when the last has arrived, the delivery is checked as a
whole and answered immediately: it is accepted if it was routed, otherwise rejected with the reason.
We settle without waiting for the sender (our attach always answers rcv-settle-mode first). A sender
whose source does not list ``rejected`` gets the source's default outcome instead.

The following are checked for each delivery, as early as possible: credit, tag, format, size,
settlement (against the link's mode), the message's sections, annotations, and the address.
"""

from typing import Any

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.address_book import NoRoute
from brokerproof.reference_broker.kernel.admission import Verdict
from brokerproof.reference_broker.kernel.credit import ReceiverCredit
from brokerproof.reference_broker.kernel.large_body import LargeBody
from brokerproof.reference_broker.kernel.message import Envelope, Section
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp10 import conditions, refusal, terminus
from brokerproof.reference_broker.protocols.amqp10.delivery import Arrival
from brokerproof.reference_broker.protocols.amqp10.large_messages import (
    EMPTY_DATA,
    BodyScan,
    LargeAmqpMessage,
    body_at,
)
from brokerproof.reference_broker.protocols.amqp10.link import Link, Session
from brokerproof.reference_broker.protocols.amqp10.message import (
    AmqpMessage,
    properties_of,
    read,
    rejected,
)
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    LINK_DETACH,
    Accepted,
    Rejected,
    Target,
    TransactionalState,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    SECOND,
    SETTLED,
    UNSETTLED,
    Attach,
    Flow,
    Transfer,
)
from brokerproof.reference_broker.protocols.amqp10.producer_credit import ProducerCredit
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.sections import BadMessage
from brokerproof.reference_broker.protocols.amqp10.transaction import LiveTransaction

ACCEPTED = Accepted()
LONGEST_TAG = 32
_MOST_ROUTES = 256
"""Envelopes kept for a producer that has no address of its own."""

_REJECTED = "amqp:rejected:list"


class IncomingLink(Link):
    credit: ReceiverCredit

    def __init__(self, session: Session, attach: Attach, our_handle: int) -> None:
        super().__init__(session, attach, our_handle)
        self.arriving: Arrival | None = None
        self._unfinished = 0  # its bytes, as the connection counts them
        self._posting: bytes | None = None
        self._format = 0
        self._largest = session.connection.acceptor.amqp.max_message_size
        self._route: Envelope | None = None
        self._routes: dict[str, Envelope] = {}
        self._dynamic: str | None = None
        self._default_outcome: Any = None
        self._knows_rejected = True
        self._on_room = self.refill

    # --- beginning --------------------------------------------------------------------------------

    def attach(self, attach: Attach) -> None:
        target = attach.target
        if target is None:
            raise Refusal(refusal.NO_TERMINUS, "attach of a sender has no target")
        address = self._address(target)
        self.begin(attach)
        answer = self.answer(attach)
        answer.source = attach.source
        answer.max_message_size = self._largest
        answer.target = Target(
            address=address if target.dynamic else target.address,
            expiry_policy=LINK_DETACH,
            dynamic=target.dynamic,
            dynamic_node_properties=target.dynamic_node_properties if target.dynamic else None,
            capabilities=tuple(
                capability
                for capability in target.capabilities
                if capability in terminus.CAPABILITIES
            ),
        )
        self.session.send(answer)
        shared, acceptor = self.session.shared, self.session.connection.acceptor
        self._rule = ProducerCredit(
            acceptor.amqp.credits, acceptor.amqp.low_credits, shared.admission, address
        )
        self.refill()

    def begin(self, attach: Attach) -> None:
        """Check the requirements on every attach of a sender."""
        if attach.initial_delivery_count is None:
            raise Refusal(
                refusal.NO_INITIAL_COUNT, "attach of a sender has no initial-delivery-count"
            )
        self.credit = ReceiverCredit(attach.initial_delivery_count)
        if attach.source is not None:
            self._default_outcome = attach.source.default_outcome
            self._knows_rejected = not attach.source.outcomes or _REJECTED in attach.source.outcomes

    def _address(self, target: Target) -> str:
        """Return the address; empty for a producer that names one in each message."""
        if target.dynamic and target.address is not None:
            raise Refusal(refusal.ADDRESS_AND_DYNAMIC, "a dynamic target names no address")
        shared, connection = self.session.shared, self.session.connection
        routing: RoutingType | None
        if target.dynamic:
            routing = terminus.wanted_routing(target.capabilities) or RoutingType.ANYCAST
            name = terminus.dynamic_name(connection.container, self.name, shared.next_consumer())
            address = self._dynamic = name = terminus.placed(
                connection.shared.family, name, routing
            )
        elif target.address is None:
            return ""
        else:
            name = target.address
            address, routing = terminus.where(
                connection.acceptor, connection.shared.family, name, target.capabilities
            )
        try:
            shared.router.get_or_create(address, routing)
        except NoRoute as problem:
            raise Refusal(refusal.NOT_FOUND, str(problem)) from None
        self._route = Envelope(address, name, routing, (), text=False)
        return address

    # --- flow -------------------------------------------------------------------------------------

    @property
    def unanswered(self) -> int:
        """The number of deliveries that have begun to arrive and are not yet answered."""
        return 1 if self.arriving is not None else 0

    def refill(self) -> None:
        """Grant credit if the rule requires it."""
        more = self._rule.refill(self.credit, self.unanswered, self._on_room)
        if more:
            self.credit.grant(more)
            self.session.flow(self)

    def flow(self, flow: Flow) -> None:
        if flow.delivery_count is not None and not self.credit.flow(flow.delivery_count):
            detail = (
                f"delivery-count {flow.delivery_count} is beyond the {self.credit.credit} credits"
                " that are left"
            )
            raise Refusal(refusal.COUNT_BEYOND_CREDIT, detail)
        self.refill()
        if flow.echo:
            self.session.flow(self)

    def describe(self, flow: Flow) -> None:
        flow.handle = self.our_handle
        flow.delivery_count = self.credit.count
        flow.link_credit = self.credit.credit

    # --- transfers --------------------------------------------------------------------------------

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        arrival = self.arriving
        if arrival is None:
            arrival = self._begun(transfer)
        else:
            self._check_same(arrival, transfer)
        if transfer.rcv_settle_mode == SECOND and not (transfer.settled or arrival.settled):
            raise Refusal(
                refusal.MODE_SECOND,
                "a transfer requests rcv-settle-mode second, but the link has first",
            )
        if transfer.aborted:
            arrival.abandon()
            self._set(None)
            self.refill()
            return
        try:
            arrival.add(transfer, payload)
            self._spool(arrival)
        except BadMessage as problem:
            arrival.spoil(problem)
        if arrival.size > self._largest:
            arrival.abandon()
            raise Refusal(refusal.TOO_LARGE, f"the message has more than {self._largest} bytes")
        if transfer.more:
            self._set(arrival)
            connection = self.session.connection
            excess = connection.shared.settings.quotas.exceeded(
                "unfinished_bytes", connection.unfinished_bytes - 1
            )
            if excess is not None:
                arrival.abandon()
                raise Refusal(refusal.TOO_MUCH_UNFINISHED, excess)
            return
        if self.in_delivery:
            self._set(None)
        self._check_settled(arrival)
        if not arrival.resumed:  # we keep nothing that could be resumed (AMQP10-XFER-21)
            state = self.arrived(arrival)
            if not arrival.settled and state is not None:
                self.session.settle_incoming(arrival.id, state)
        self.refill()

    def _spool(self, arrival: Arrival) -> None:
        """From now on, write the body of ``arrival`` to a file if it is large and files exist."""
        large, smallest = (
            self.session.shared.large,
            self.session.connection.acceptor.amqp.min_large_message_size,
        )
        if large is None or arrival.goes_elsewhere or not 0 <= smallest <= arrival.size:
            return
        if arrival.size < arrival.next_look:
            return
        at = body_at(arrival.payload())
        if at is None:
            # Joining and reading all parts at each transfer would cost quadratic time.
            arrival.next_look = 2 * arrival.size
        else:
            arrival.spool_from(
                at,
                large.begin(text=False, failed=self.session.connection.on_store_failed),
                BodyScan(),
            )

    def _set(self, arrival: Arrival | None) -> None:
        if arrival is not None or self._unfinished:
            size = 0 if arrival is None else arrival.size
            self.session.connection.unfinished_bytes += size - self._unfinished
            self._unfinished = size
        self.arriving = arrival
        self.in_delivery = arrival is not None
        state = None if arrival is None else arrival.state
        txn_id = state.txn_id if isinstance(state, TransactionalState) else None
        if txn_id != self._posting:
            posting = self.session.connection.posting
            if self._posting is not None:
                posting[self._posting] -= 1
                if not posting[self._posting]:
                    del posting[self._posting]
            if txn_id is not None:
                posting[txn_id] += 1
            self._posting = txn_id

    def _begun(self, transfer: Transfer) -> Arrival:
        if not self.credit.spend():
            raise Refusal(refusal.BEYOND_CREDIT, "received a transfer on a link without credit")
        tag = transfer.delivery_tag
        if tag is None:
            raise Refusal(
                refusal.TAG_MISSING, "the first transfer of a delivery has no delivery-tag"
            )
        if len(tag) > LONGEST_TAG:
            raise Refusal(
                refusal.TAG_TOO_LONG,
                f"the delivery-tag has {len(tag)} bytes; at most {LONGEST_TAG} are allowed",
            )
        if transfer.message_format is None:
            raise Refusal(
                refusal.FORMAT_MISSING, "the first transfer of a delivery has no message-format"
            )
        if transfer.message_format != 0:
            raise Refusal(
                refusal.FORMAT_UNKNOWN,
                f"message-format {transfer.message_format} is not supported; only 0 is",
            )
        return Arrival(transfer)

    @staticmethod
    def _check_same(arrival: Arrival, transfer: Transfer) -> None:
        if transfer.delivery_id not in (None, arrival.id):
            detail = f"delivery {transfer.delivery_id} began in the middle of delivery {arrival.id}"
            raise Refusal(refusal.OTHER_DELIVERY_ID, detail)
        if transfer.delivery_tag not in (None, arrival.tag):
            raise Refusal(
                refusal.OTHER_TAG,
                f"the delivery-tag changed in the middle of delivery {arrival.id}",
            )
        if transfer.message_format not in (None, 0):
            raise Refusal(
                refusal.OTHER_FORMAT,
                f"the message-format changed in the middle of delivery {arrival.id}",
            )

    def _check_settled(self, arrival: Arrival) -> None:
        if arrival.settled and self.snd_settle_mode == UNSETTLED:
            raise Refusal(
                refusal.WRONGLY_SETTLED,
                "a delivery is settled, but the link's snd-settle-mode is unsettled",
            )
        if not arrival.settled and self.snd_settle_mode == SETTLED:
            raise Refusal(
                refusal.NEVER_SETTLED,
                "a delivery is unsettled, but the link's snd-settle-mode is settled",
            )

    # --- messages ---------------------------------------------------------------------------------

    def arrived(self, arrival: Arrival) -> Any:
        """Return the state of a complete delivery; None if it is undecided."""
        shared = self.session.shared
        transaction = None
        if arrival.state is not None and isinstance(arrival.state, TransactionalState):
            transaction = self.session.connection.transactions.get(arrival.state.txn_id)
            if transaction is None:
                return self._not_taken(
                    conditions.UNKNOWN_ID, "the delivery's txn-id is unknown here"
                )
        try:
            payload, large = self._whole(arrival)
            route = self._route or self._own_route(payload)
            message = read(payload, shared.router.next_number(), route, shared.clock.unix())
            if large is not None:
                body, body_sections, placeholder = large
                message.bare = message.bare[: len(message.bare) - len(placeholder)]
                message = LargeAmqpMessage(message, body, body_sections)
        except BadMessage as problem:
            state = self._not_taken(conditions.DECODE_ERROR, str(problem))
        except NoRoute as problem:
            state = self._not_taken(conditions.NOT_FOUND, str(problem))
        else:
            if self._route is None:
                self._rule.address = route.address
            match shared.admission.judge(route.address, by_credit=True):
                case Verdict.TAKE | Verdict.WAIT:  # the credit was granted
                    state = self.take(message, arrival, transaction)
                case Verdict.DROP:
                    state = ACCEPTED
                case Verdict.UNSTORED:
                    state = self._not_taken(
                        conditions.RESOURCE_LIMIT_EXCEEDED, shared.admission.disk_problem()
                    )
                case Verdict.REFUSE:
                    state = self._not_taken(
                        conditions.RESOURCE_LIMIT_EXCEEDED, f"Address is full: {route.address}"
                    )
        return state if transaction is None else self.reported_state(state, arrival, transaction)

    @staticmethod
    def reported_state(state: Any, arrival: Arrival, transaction: LiveTransaction | None) -> Any:
        """Return the state to report for the outcome ``state``, wrapped if in a transaction."""
        if transaction is None or state is None:
            return state
        if isinstance(state, Rejected) and arrival.settled:
            transaction.doom(
                "a message that was sent settled was not accepted:"
                f" {state.error and state.error.description}"
            )
        return TransactionalState(txn_id=transaction.id, outcome=state)

    @staticmethod
    def _whole(
        arrival: Arrival,
    ) -> tuple[bytes, tuple[LargeBody, tuple[Section, ...], bytes] | None]:
        """Return the bytes of a message. A large message has a placeholder for its body, and is
        returned together with the body, its sections, and the placeholder."""
        large, payload = arrival.finish(), arrival.payload()
        if large is None:
            return payload, None
        body, body_sections, footer = large
        placeholder = EMPTY_DATA + footer
        return payload + placeholder, (body, body_sections, placeholder)

    def take(
        self, message: AmqpMessage, arrival: Arrival, transaction: LiveTransaction | None
    ) -> Any:
        """Return the outcome of a message that may be added; None if it is undecided."""
        return self._take(message, None if transaction is None else transaction.send)

    def _take(self, message: AmqpMessage, send: Any) -> Any:
        try:
            if not self.publish(message, send):
                what = f"a queue of {message.route.address} has reached its limit"
                return self._not_taken(conditions.RESOURCE_LIMIT_EXCEEDED, what)
        except NoRoute as problem:
            return self._not_taken(conditions.NOT_FOUND, str(problem))
        return ACCEPTED

    def publish(self, message: AmqpMessage, send: Any) -> bool:
        """Add ``message``, either directly or by ``send`` with its transaction; return False if a
        queue refused it. Raises ``NoRoute``."""
        if send is None:
            return self.session.shared.router.publish(message)
        self.session.shared.router.get_or_create(message.route.address, message.route.routing)
        send(message)
        return True

    def _not_taken(self, condition: str, description: str) -> Any:
        """Return rejected, or the outcome that the source uses instead (AMQP10-OUT-16, -18)."""
        self.session.connection.observe("AMQP10-OUT-01", f"not accepted: {description}")
        if self._knows_rejected or self._default_outcome is None:
            return rejected(condition, description)
        return self._default_outcome

    def _own_route(self, payload: bytes) -> Envelope:
        """Return the ``to`` of a message whose producer has no address. Raises NoRoute,
        BadMessage."""
        properties = properties_of(payload)
        if properties is None or not properties.to:
            raise NoRoute("neither the target nor the message's properties name an address")
        route = self._routes.get(properties.to)
        if route is None:
            try:
                connection = self.session.connection
                address, routing = terminus.where(
                    connection.acceptor, connection.shared.family, properties.to
                )
            except Refusal as problem:
                raise NoRoute(problem.detail) from None
            if len(self._routes) >= _MOST_ROUTES:
                self._routes.clear()
            route = self._routes[properties.to] = Envelope(
                address, properties.to, routing, (), text=False
            )
        return route

    # --- the end ----------------------------------------------------------------------------------

    def stop(self) -> None:
        if self.arriving is not None:
            self.arriving.abandon()
        self._set(None)
        self.session.shared.admission.forget(self._on_room)

    def give_back(self) -> list[Queue]:
        if self._dynamic is not None:
            self.session.shared.router.addresses.remove(self._dynamic)
        return []
