"""Exchanges, queues and bindings (classes exchange and queue)."""

from collections.abc import Callable, Mapping
from typing import Any

from pamqp import base, commands

from brokerproof.harness.model.time import ms
from brokerproof.reference_broker.families.rabbitmq.exchanges import (
    DEFAULT,
    PREDECLARED,
    TYPES,
    Binding,
    Exchange,
)
from brokerproof.reference_broker.families.rabbitmq.topology import Declared
from brokerproof.reference_broker.kernel.address_book import NoRoute
from brokerproof.reference_broker.protocols.amqp091 import arguments, methods
from brokerproof.reference_broker.protocols.amqp091.errors import (
    ACCESS_REFUSED,
    NOT_FOUND,
    PRECONDITION_FAILED,
    RESOURCE_ERROR,
    RESOURCE_LOCKED,
    Refusal,
    shown,
)
from brokerproof.reference_broker.protocols.amqp091.ports import Channel

RESERVED = "amq."


def _answer(channel: Channel, method: Any, answer: base.Frame) -> None:
    if not getattr(method, "nowait", False):
        channel.tell(answer)


# --- finding --------------------------------------------------------------------------------------


def exchange_of(channel: Channel, name: str) -> Exchange:
    """Return the exchange with that name. Raises :class:`Refusal`."""
    exchange = channel.topology.exchanges.find(name)
    if exchange is None:
        raise Refusal(NOT_FOUND, f"no exchange {shown(name)} in vhost '/'")
    return exchange


def queue_of(channel: Channel, name: str) -> Declared:
    """Return the queue with that name; for an empty name, the last queue declared on the channel.
    Raises :class:`Refusal`."""
    if not name:
        name = channel.last_queue
        if not name:
            raise Refusal(NOT_FOUND, "no queue was declared on this channel")
    declared = channel.topology.find(name)
    if declared is None:
        raise Refusal(NOT_FOUND, f"no queue {shown(name)} in vhost '/'")
    if declared.owner not in (None, channel.connection.conn):
        raise Refusal(RESOURCE_LOCKED, f"queue {shown(name)} is exclusive to another connection")
    channel.topology.used(declared)
    return declared


def _bind(channel: Channel, source: Exchange, binding: Binding) -> None:
    """Add a binding, unless it exists or the connection has reached its quota."""
    exchanges = channel.topology.exchanges
    connection = channel.connection
    if binding not in source.bindings:
        connection.check_quota("bindings", exchanges.binders.count(connection.conn))
        exchanges.bind(source, binding, connection.conn)


# --- exchanges ------------------------------------------------------------------------------------


def declare_exchange(channel: Channel, method: Any) -> None:
    name, kind = method.exchange, method.exchange_type
    if name == DEFAULT:
        raise Refusal(ACCESS_REFUSED, "the default exchange cannot be declared")
    if method.passive:
        exchange_of(channel, name)
        _answer(channel, method, commands.Exchange.DeclareOk())
        return
    if kind not in TYPES:
        raise Refusal(
            PRECONDITION_FAILED,  # as in 4.x; 3.x and the specification use 503
            f"unknown exchange type {shown(kind)}; declared are {', '.join(TYPES)}",
        )
    given = _table(method.arguments)
    alternate = given.get("alternate-exchange")
    if alternate is not None and not isinstance(alternate, str):
        raise Refusal(PRECONDITION_FAILED, "alternate-exchange must name an exchange")
    exchange = channel.topology.exchanges.find(name)
    if exchange is None:
        if name.startswith(RESERVED):
            raise Refusal(
                ACCESS_REFUSED, f"exchange name {shown(name)} contains reserved prefix 'amq.'"
            )
        exchange = Exchange(name, kind, method.durable, method.auto_delete, method.internal, given)
        connection = channel.connection
        exchanges = channel.topology.exchanges
        connection.check_quota("exchanges", exchanges.creators.count(connection.conn))
        exchanges.add(exchange, connection.conn)
    requested = (
        kind,
        bool(method.durable),
        bool(method.auto_delete),
        bool(method.internal),
        alternate,
    )
    declared = (
        exchange.type,
        bool(exchange.durable),
        bool(exchange.auto_delete),
        bool(exchange.internal),
        exchange.alternate,
    )
    for what, ours, theirs in zip(_ABOUT_EXCHANGES, declared, requested, strict=True):
        if ours != theirs:
            detail = (
                f"inequivalent arg '{what}' for exchange {shown(name)}: received {theirs!r},"
                f" current is {ours!r}"
            )
            raise Refusal(PRECONDITION_FAILED, detail)
    _answer(channel, method, commands.Exchange.DeclareOk())


_ABOUT_EXCHANGES = ("type", "durable", "auto_delete", "internal", "alternate-exchange")


def delete_exchange(channel: Channel, method: Any) -> None:
    """Delete an exchange. As RabbitMQ documents, deleting an unknown one succeeds."""
    name = method.exchange
    if name == DEFAULT or name in PREDECLARED or name.startswith(RESERVED):
        raise Refusal(ACCESS_REFUSED, f"exchange {shown(name)} cannot be deleted")
    exchange = channel.topology.exchanges.find(name)
    if exchange is not None:
        if method.if_unused and (exchange.bindings or exchange.sources):
            raise Refusal(PRECONDITION_FAILED, f"exchange {shown(name)} is in use")
        channel.topology.exchanges.remove(exchange)
    _answer(channel, method, commands.Exchange.DeleteOk())


def bind_exchange(channel: Channel, method: Any) -> None:
    source, binding = _between_exchanges(channel, method)
    _bind(channel, source, binding)
    _answer(channel, method, commands.Exchange.BindOk())


def unbind_exchange(channel: Channel, method: Any) -> None:
    source, binding = _between_exchanges(channel, method)
    channel.topology.exchanges.unbind(source, binding)
    _answer(channel, method, commands.Exchange.UnbindOk())


def _between_exchanges(channel: Channel, method: Any) -> tuple[Exchange, Binding]:
    for name in (method.source, method.destination):
        _not_default(name)
    source, target = exchange_of(channel, method.source), exchange_of(channel, method.destination)
    return source, _binding(method.routing_key, target, method.arguments)


def _not_default(name: str) -> None:
    if name == DEFAULT:
        raise Refusal(ACCESS_REFUSED, "operation not permitted on the default exchange")


def _binding(key: str, target: Any, given: Any) -> Binding:
    table = _table(given)
    return Binding(key, target, table, repr(sorted(table.items(), key=lambda item: item[0])))


# --- queues ---------------------------------------------------------------------------------------


def declare_queue(channel: Channel, method: Any) -> None:
    name = method.queue
    topology = channel.topology
    if method.passive:
        declared = queue_of(channel, name)
    else:
        given = _table(method.arguments)
        known = topology.find(name) if name else None
        if known is not None:
            declared = queue_of(channel, name)
            _same(declared, method, given, channel.connection.conn)
        else:
            declared = _new_queue(channel, method, given)
    channel.last_queue = declared.name
    queue = declared.queue
    answer = methods.make(commands.Queue.DeclareOk, declared.name, len(queue), queue.consumers)
    _answer(channel, method, answer)


def _new_queue(channel: Channel, method: Any, given: Mapping[str, Any]) -> Declared:
    name = method.queue
    if name.startswith(RESERVED):
        raise Refusal(ACCESS_REFUSED, f"queue name {shown(name)} contains reserved prefix 'amq.'")
    arguments.check(name, given)
    if given.get(arguments.TYPE) == "quorum" and (method.exclusive or not method.durable):
        raise Refusal(PRECONDITION_FAILED, f"queue {shown(name)} of type quorum is not durable")
    name = name or channel.topology.new_name("amq.gen", channel.connection.shared.session_seed)
    expires = given.get(arguments.EXPIRES)
    try:
        return channel.topology.declare(
            name,
            arguments.limits(given),
            durable=bool(method.durable and not method.exclusive),
            owner=channel.connection.conn if method.exclusive else None,
            auto_delete=bool(method.auto_delete),
            arguments=given,
            expires=None if expires is None else ms(expires),
        )
    except NoRoute as problem:
        raise Refusal(RESOURCE_ERROR, str(problem)) from None


def _same(declared: Declared, method: Any, given: Mapping[str, Any], conn: int) -> None:
    requested = {
        "durable": bool(method.durable and not method.exclusive),
        "auto_delete": bool(method.auto_delete),
        "exclusive": bool(method.exclusive),
    }
    there = {
        "durable": declared.durable,
        "auto_delete": declared.auto_delete,
        "exclusive": declared.owner is not None,
    }
    differing = next((name for name in requested if requested[name] != there[name]), None)
    differing = differing or arguments.differing(declared.arguments, given)
    if differing is None:
        return
    ours = there.get(differing, declared.arguments.get(differing))
    theirs = requested.get(differing, given.get(differing))
    detail = (
        f"inequivalent arg '{differing}' for queue {shown(declared.name)}: received {theirs!r},"
        f" current is {ours!r}"
    )
    raise Refusal(PRECONDITION_FAILED, detail[:200])


def bind_queue(channel: Channel, method: Any) -> None:
    source, binding = _to_queue(channel, method)
    _bind(channel, source, binding)
    _answer(channel, method, commands.Queue.BindOk())


def unbind_queue(channel: Channel, method: Any) -> None:
    source, binding = _to_queue(channel, method)
    channel.topology.exchanges.unbind(source, binding)
    _answer(channel, method, commands.Queue.UnbindOk())


def _to_queue(channel: Channel, method: Any) -> tuple[Exchange, Binding]:
    _not_default(method.exchange)
    queue = queue_of(channel, method.queue)
    key = queue.name if not method.queue and not method.routing_key else method.routing_key
    return exchange_of(channel, method.exchange), _binding(key, queue.queue, method.arguments)


def purge(channel: Channel, method: Any) -> None:
    count = queue_of(channel, method.queue).queue.purge()
    _answer(channel, method, commands.Queue.PurgeOk(count))


def delete_queue(channel: Channel, method: Any) -> None:
    """Delete a queue. As RabbitMQ documents, deleting an unknown one succeeds."""
    name = method.queue or channel.last_queue
    if channel.topology.find(name) is None:
        _answer(channel, method, commands.Queue.DeleteOk(0))
        return
    declared = queue_of(channel, name)
    if method.if_unused and declared.queue.has_consumers:
        raise Refusal(PRECONDITION_FAILED, f"queue {shown(name)} in vhost '/' in use")
    if method.if_empty and len(declared.queue):
        raise Refusal(PRECONDITION_FAILED, f"queue {shown(name)} in vhost '/' not empty")
    _answer(channel, method, commands.Queue.DeleteOk(channel.topology.delete(declared)))


def _table(given: Any) -> dict[str, Any]:
    return dict(given) if isinstance(given, dict) else {}


HANDLERS: dict[type[base.Frame], Callable[[Channel, Any], None]] = {
    commands.Exchange.Declare: declare_exchange,
    commands.Exchange.Delete: delete_exchange,
    commands.Exchange.Bind: bind_exchange,
    commands.Exchange.Unbind: unbind_exchange,
    commands.Queue.Declare: declare_queue,
    commands.Queue.Bind: bind_queue,
    commands.Queue.Unbind: unbind_queue,
    commands.Queue.Purge: purge,
    commands.Queue.Delete: delete_queue,
}
