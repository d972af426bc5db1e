"""Requests to a CORE session to create, delete and describe queues and addresses."""

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.address_book import NoRoute
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.core import codes, queries
from brokerproof.reference_broker.protocols.core.encoding import Fields
from brokerproof.reference_broker.protocols.core.refusal import Refusal
from brokerproof.reference_broker.protocols.core.request import Connection, ResponseRequest
from brokerproof.reference_broker.selector.selector import Selector, SelectorError, parse

_ROUTINGS = {0: RoutingType.MULTICAST, 1: RoutingType.ANYCAST}


class SessionQueues:
    def __init__(self, connection: Connection, channel: int) -> None:
        self._connection = connection
        self._router = connection.shared.router
        self._channel = channel

    def create_queue(self, fields: Fields, response: ResponseRequest) -> None:
        address, name, filter, durable = _named(fields)
        fields.flag()
        response.answer = fields.flag()
        self._make(address, name, filter, durable, RoutingType.MULTICAST, on_demand=False)

    def create_queue_2(self, fields: Fields, response: ResponseRequest) -> None:
        address, name, filter, durable = _named(fields)
        temporary = fields.flag()
        response.answer = fields.flag()
        on_demand = fields.flag()
        routing = _ROUTINGS.get(fields.byte())
        (
            fields.int32(),
            fields.flag(),
            fields.perhaps(fields.flag),
            fields.perhaps(fields.flag),
            fields.optional_text(),
        )
        fields.perhaps(fields.flag), fields.perhaps(fields.int32), fields.perhaps(fields.int64)
        auto_delete = None
        if fields.left:
            fields.perhaps(fields.flag), fields.perhaps(fields.int32)
            auto_delete = fields.perhaps(fields.flag)
        rule = self._router.addresses.settings_for(address)
        self._make(
            address,
            name,
            filter,
            durable and not temporary,
            routing or rule.default_queue_routing_type,
            on_demand=auto_delete if auto_delete is not None else on_demand,
        )

    def create_shared_queue(self, fields: Fields, response: ResponseRequest) -> None:
        address, name, filter, durable = _named(fields)
        response.answer = fields.flag()
        self._share(address, name, filter, durable, RoutingType.MULTICAST)

    def create_shared_queue_2(self, fields: Fields, response: ResponseRequest) -> None:
        address, name, filter, durable = _named(fields)
        routing = _ROUTINGS.get(fields.byte())
        response.answer = fields.flag()
        self._share(address, name, filter, durable, routing or RoutingType.MULTICAST)

    def _share(
        self, address: str, name: str, filter: str | None, durable: bool, routing: RoutingType
    ) -> None:
        if self._router.addresses.queue_by_name(name) is None:
            self._make(address, name, filter, durable, routing, on_demand=not durable)

    def _make(
        self,
        address: str,
        name: str,
        filter: str | None,
        durable: bool,
        routing: RoutingType,
        *,
        on_demand: bool,
    ) -> None:
        if self._router.addresses.queue_by_name(name) is not None:
            raise Refusal(codes.QUEUE_EXISTS, f"Queue {name} already exists")
        try:
            self._router.create(
                address, name, routing, selector(filter), durable=durable, on_demand=on_demand
            )
        except NoRoute as problem:
            raise Refusal(codes.NO_ADDRESS, str(problem)) from None

    def create_address(self, fields: Fields, response: ResponseRequest) -> None:
        name = fields.text()
        routings = [_ROUTINGS.get(fields.byte()) for _ in range(max(0, min(2, fields.int32())))]
        response.answer = fields.flag()
        try:
            self._router.addresses.create(
                name, {routing for routing in routings if routing is not None}
            )
        except NoRoute as problem:
            raise Refusal(codes.NO_ADDRESS, str(problem)) from None

    def delete_queue(self, fields: Fields, response: ResponseRequest) -> None:
        response.answer = True
        name = fields.text()
        address, queue = self.find(name)
        if queue.has_consumers:
            raise Refusal(codes.ILLEGAL_STATE, f"Cannot delete queue {name}: it has consumers")
        self._router.delete(address, queue)

    def queue_query(self, fields: Fields, response: ResponseRequest) -> None:
        response.answer = response.answered = True
        self.describe(fields.text())

    def binding_query(self, fields: Fields, response: ResponseRequest) -> None:
        response.answer = response.answered = True
        name, addresses = fields.text(), self._router.addresses
        rule, address = addresses.settings_for(name), addresses.get(name)
        self._connection.send(
            queries.of_address(self._channel, rule, address, self._connection.version)
        )

    def describe(self, name: str) -> None:
        router = self._router
        binding = router.addresses.queue_by_name(name)
        rule = router.addresses.settings_for(name if binding is None else binding[0].name)
        on_demand = binding is not None and router.addresses.is_on_demand(binding[1])
        self._connection.send(queries.of_queue(self._channel, name, rule, binding, on_demand))

    def find(self, name: str) -> tuple[str, Queue]:
        """Return the queue ``name``, which follows its address's name. Raises :class:`Refusal`."""
        binding = self._router.addresses.queue_by_name(name)
        if binding is None:
            raise Refusal(codes.NO_QUEUE, f"Queue {name} does not exist")
        return binding[0].name, binding[1]


def _named(fields: Fields) -> tuple[str, str, str | None, bool]:
    """Read a queue's address, name and filter, and whether the queue is durable."""
    return fields.text(), fields.text(), fields.optional_text(), fields.flag()


def selector(text: str | None) -> Selector | None:
    if not text:
        return None
    try:
        return parse(text)
    except SelectorError as problem:
        raise Refusal(codes.BAD_FILTER, str(problem)) from None
