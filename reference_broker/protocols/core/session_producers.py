"""The producers of a CORE session: their credit, and the messages that they send."""

from collections.abc import Callable
from functools import partial

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.admission import Verdict
from brokerproof.reference_broker.kernel.java_fields import int32
from brokerproof.reference_broker.kernel.message import Envelope
from brokerproof.reference_broker.protocols.core import codes
from brokerproof.reference_broker.protocols.core.encoding import Fields, packet, text
from brokerproof.reference_broker.protocols.core.message import Arrival, CoreMessage
from brokerproof.reference_broker.protocols.core.producer_credit import Grants
from brokerproof.reference_broker.protocols.core.refusal import Refusal
from brokerproof.reference_broker.protocols.core.request import Connection, ResponseRequest

_MOST_ROUTES = 1024


class SessionProducers:
    """The producers in the session of ``channel``. ``send`` publishes a message, either directly or
    with the session's transaction."""

    def __init__(
        self, connection: Connection, channel: int, send: Callable[[CoreMessage], None]
    ) -> None:
        self._connection = connection
        self._shared = connection.shared
        self._channel = channel
        self._send = send
        self._grants: dict[str, Grants] = {}
        self._routes: dict[tuple[str, RoutingType | None], Envelope] = {}

    def close(self) -> None:
        """Return the unused credit."""
        for grants in self._grants.values():
            grants.close()

    def request_credits(self, fields: Fields, response: ResponseRequest) -> None:
        credits, address = fields.int32(), fields.text()
        if address not in self._grants:
            excess = self._shared.settings.quotas.exceeded("producers", len(self._grants))
            if excess is not None:
                self._refuse_credits(address, credits)
                return
        self._grants_at(address).request(credits)

    def _refuse_credits(self, address: str, credits: int) -> None:
        self._connection.send(
            packet(codes.CREDITS_REFUSED, self._channel, int32(credits), text(address))
        )

    def _grants_at(self, address: str) -> Grants:
        grants = self._grants.get(address)
        if grants is None:
            shared, channel = self._shared, self._channel
            grants = self._grants[address] = Grants(
                address,
                shared.accounting,
                shared.admission,
                shared.settings.core_grants_within_room,
                lambda credits: self._connection.send(
                    packet(codes.CREDITS, channel, int32(credits), text(address))
                ),
                partial(self._refuse_credits, address),
                self._connection.observe,
            )
        return grants

    def publish(self, fields: Fields, response: ResponseRequest) -> None:
        arrival = Arrival(fields)
        response.answer = fields.flag()
        if self._connection.version >= codes.ASYNC_RESPONSES and fields.left:
            response.correlation = fields.int64()
        address = arrival.fields.address
        if not address:
            raise Refusal(codes.NO_ADDRESS, "a message has no address")
        grants = self._grants.get(address)
        if grants is not None:
            grants.spent(arrival.cost)
        shared = self._shared
        match shared.admission.judge(address, by_credit=False):
            case Verdict.DROP:
                return
            case Verdict.UNSTORED:
                raise Refusal(codes.IO_ERROR, shared.admission.disk_problem())
            case Verdict.REFUSE:
                raise Refusal(codes.ADDRESS_FULL, f'Address "{address}" is full.')
            case Verdict.WAIT:
                self._connection.observe(
                    "ARTEMIS-FLOW-block-5", f"{address} is full, and takes one more message"
                )
            case Verdict.TAKE:
                pass
        route = self._route(address, arrival.fields.routing)
        now = shared.clock.unix()
        message = CoreMessage(
            shared.router.next_number(), route, now, arrival.data, arrival.tail, arrival.fields
        )
        self._send(message)

    def _route(self, address: str, routing: RoutingType | None) -> Envelope:
        key = address, routing
        route = self._routes.get(key)
        if route is None:
            if len(self._routes) >= _MOST_ROUTES:
                self._routes.clear()
            route = self._routes[key] = Envelope(address, address, routing, (), text=False)
        return route

    def large(self, fields: Fields, response: ResponseRequest) -> None:
        """Refuse a large message. The error answers the part that asks for a response."""
        raise Refusal(
            codes.NOT_IMPLEMENTED,
            "this broker does not accept large messages over CORE; send them as regular ones",
        )

    def continuation(self, fields: Fields, response: ResponseRequest) -> None:
        fields.take(fields.int32())
        if not fields.flag():
            fields.int64()
        response.answer = fields.flag()
        if self._connection.version >= codes.ASYNC_RESPONSES and fields.left:
            response.correlation = fields.int64()
        self.large(fields, response)
