"""basic.publish with returns, confirms and transactions (classes basic, confirm and tx)."""

from collections.abc import Callable
from typing import Any

from pamqp import base, commands

from brokerproof.harness.model.time import Duration, ms
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp091 import arguments, methods
from brokerproof.reference_broker.protocols.amqp091.confirms import Confirms
from brokerproof.reference_broker.protocols.amqp091.declaring import exchange_of
from brokerproof.reference_broker.protocols.amqp091.errors import (
    ACCESS_REFUSED,
    NO_ROUTE,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    Refusal,
    shown,
)
from brokerproof.reference_broker.protocols.amqp091.message import Amqp091Message
from brokerproof.reference_broker.protocols.amqp091.ports import Channel
from brokerproof.reference_broker.protocols.amqp091.transaction import Transaction

TOPIC = "amq.topic"


def publish(channel: Channel, method: Any, data: bytes, body: bytes) -> None:
    """Publish a complete message; ``data`` is its properties. Raises :class:`Refusal`."""
    shared = channel.connection.shared
    if method.immediate:
        raise Refusal(NOT_IMPLEMENTED, "immediate=true")
    exchange = exchange_of(channel, method.exchange)
    if exchange.internal:
        raise Refusal(ACCESS_REFUSED, f"cannot publish to internal exchange {shown(exchange.name)}")
    properties = methods.properties(data)
    _check_user(channel, properties)
    arrived = shared.clock.unix()
    lifetime = _lifetime(properties)
    message = Amqp091Message(
        shared.router.next_number(),
        arrived,
        method.exchange,
        method.routing_key,
        data,
        body,
        lifetime,
    )
    queues = channel.topology.exchanges.route(
        exchange, method.routing_key, properties.get("headers") or {}
    )
    if channel.transaction is not None:
        channel.transaction.sends.append((message, queues, method.mandatory))
        return
    number = None if channel.confirms is None else channel.confirms.next()
    _announce(channel, message, queues, method.mandatory)
    if queues and channel.topology.pace is not None:
        channel.flow.hand(message, queues, number)
        return
    taken = channel.topology.route(message, queues)
    if channel.confirms is not None and number is not None:
        channel.confirms.answer(number, taken)
        channel.connection.touch(channel)


def _announce(
    channel: Channel, message: Amqp091Message, queues: list[Queue], mandatory: bool
) -> None:
    """Return an unroutable mandatory message to the client; pass on a message to amq.topic."""
    if not queues and mandatory:
        exchange, key = message.exchange, message.routing_key
        returned = methods.make(commands.Basic.Return, NO_ROUTE, "NO_ROUTE", exchange, key)
        channel.send_content(returned, message)
    if message.exchange == TOPIC:
        channel.connection.shared.router.multicast(message, message.routing_key)


def _check_user(channel: Channel, properties: dict[str, Any]) -> None:
    user = properties.get("user_id")
    if user is not None and user != channel.connection.user:
        detail = (
            f"user_id property set to {shown(user)} but authenticated user was"
            f" {shown(channel.connection.user)}"
        )
        raise Refusal(PRECONDITION_FAILED, detail)


def _lifetime(properties: dict[str, Any]) -> Duration | None:
    """Return the lifetime from the decimal milliseconds of expiration, None if there is none."""
    text = properties.get("expiration")
    if text is None:
        return None
    if not (
        text.isascii() and text.isdecimal() and len(text) < 12 and int(text) <= arguments.LONGEST_MS
    ):
        raise Refusal(
            PRECONDITION_FAILED, f"invalid expiration {shown(text)}: expected milliseconds"
        )
    return ms(int(text))


def confirm_select(channel: Channel, method: Any) -> None:
    if channel.transaction is not None:
        raise Refusal(PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    channel.confirms = channel.confirms or Confirms()
    if not method.nowait:
        channel.tell(commands.Confirm.SelectOk())


def tx_select(channel: Channel, method: Any) -> None:
    if channel.confirms is not None:
        raise Refusal(PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    channel.transaction = channel.transaction or Transaction()
    channel.tell(commands.Tx.SelectOk())


def tx_commit(channel: Channel, method: Any) -> None:
    transaction = _transaction(channel)
    channel.transaction = Transaction()
    taken = True
    for message, queues, mandatory in transaction.sends:
        there = [queue for queue in queues if channel.topology.of(queue) is not None]
        _announce(channel, message, there, mandatory)
        taken = channel.topology.route(message, there) and taken
    for settled, outcome in transaction.settlements:
        channel.settle(settled, outcome)
    if not taken:
        raise Refusal(PRECONDITION_FAILED, "partial tx completion")
    channel.tell(commands.Tx.CommitOk())


def tx_rollback(channel: Channel, method: Any) -> None:
    """Undo the transaction. Settled deliveries become unacknowledged again but are not resent
    (tx.rollback)."""
    for delivery in _transaction(channel).undo():
        channel.unacked[delivery.tag] = delivery
    channel.tell(commands.Tx.RollbackOk())


def _transaction(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise Refusal(PRECONDITION_FAILED, "channel is not transactional")
    return channel.transaction


HANDLERS: dict[type[base.Frame], Callable[[Channel, Any], None]] = {
    commands.Confirm.Select: confirm_select,
    commands.Tx.Select: tx_select,
    commands.Tx.Commit: tx_commit,
    commands.Tx.Rollback: tx_rollback,
}
