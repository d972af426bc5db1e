"""Consumers, basic.get and acknowledgements (class basic), and channel.flow."""

from collections.abc import Callable
from typing import Any

from pamqp import base, commands

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.protocols.amqp091 import message as messages
from brokerproof.reference_broker.protocols.amqp091 import methods
from brokerproof.reference_broker.protocols.amqp091.consumer import (
    Consumer,
    Getter,
    Prefetch,
    Unacked,
)
from brokerproof.reference_broker.protocols.amqp091.declaring import queue_of
from brokerproof.reference_broker.protocols.amqp091.errors import (
    ACCESS_REFUSED,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    Refusal,
    shown,
)
from brokerproof.reference_broker.protocols.amqp091.ports import Channel


def consume(channel: Channel, method: Any) -> None:
    """Start a consumer. As in RabbitMQ, ``no-local`` is ignored."""
    declared = queue_of(channel, method.queue)
    shared = channel.connection.shared
    tag = method.consumer_tag or channel.topology.new_name("amq.ctag", shared.session_seed)
    if tag in channel.consumers:
        raise Refusal(NOT_ALLOWED, f"attempt to reuse consumer tag {shown(tag)}")
    if declared.sole or (method.exclusive and declared.queue.has_consumers):
        raise Refusal(ACCESS_REFUSED, f"queue {shown(declared.name)} in vhost '/' in exclusive use")
    if type((method.arguments or {}).get("x-priority", 0)) is not int:
        raise Refusal(PRECONDITION_FAILED, "invalid arg 'x-priority' in consumer arguments")
    consumers = sum(len(other.consumers) for other in channel.connection.channels.values())
    channel.connection.check_quota("subscriptions", consumers)
    declared.sole = bool(method.exclusive)
    prefetch = Prefetch(channel.prefetch)
    consumer = Consumer(channel, tag, declared, bool(method.no_ack), prefetch)
    channel.consumers[tag] = consumer
    if not method.nowait:
        channel.tell(commands.Basic.ConsumeOk(tag))
    consumer.attach()


def cancel(channel: Channel, method: Any) -> None:
    """End a consumer; its deliveries remain unacknowledged. An unknown tag is not an error
    (basic.cancel)."""
    consumer = channel.consumers.get(method.consumer_tag)
    if consumer is not None:
        channel.cancel(consumer)
    if not method.nowait:
        channel.tell(commands.Basic.CancelOk(method.consumer_tag))


def cancel_ok(channel: Channel, method: Any) -> None:
    """Ignore the answer to our basic.cancel."""


def get(channel: Channel, method: Any) -> None:
    declared = queue_of(channel, method.queue)
    queue = declared.queue
    getter = Getter(channel.wait_for)
    queue.get(getter)
    entry = getter.entry
    if entry is None:
        channel.tell(commands.Basic.GetEmpty())
        return
    redelivered = entry.deliveries > 0
    entry.deliveries += 1
    tag = channel.next_tag()
    exchange, key = messages.exchange_and_key(entry.message)
    answer = methods.make(commands.Basic.GetOk, tag, redelivered, exchange, key, len(queue))
    if not method.no_ack:
        channel.unacked[tag] = Unacked(tag, entry, declared, None)
        queue.unsettled += 1
    channel.send_content(answer, entry.message)
    if method.no_ack:
        queue.discard(entry)
        channel.connection.shared.router.addresses.tidy(queue)


def ack(channel: Channel, method: Any) -> None:
    _settle(channel, method.delivery_tag, method.multiple, Outcome.ACCEPTED)


def nack(channel: Channel, method: Any) -> None:
    _settle(channel, method.delivery_tag, method.multiple, _given_back(method))


def reject(channel: Channel, method: Any) -> None:
    _settle(channel, method.delivery_tag, False, _given_back(method))


def _given_back(method: Any) -> Outcome:
    return Outcome.RELEASED if method.requeue else Outcome.REJECTED


def _settle(channel: Channel, tag: int, multiple: bool, outcome: Outcome) -> None:
    settled = channel.collect(tag, multiple)
    if channel.transaction is not None:
        channel.transaction.settlements.append((settled, outcome))
    else:
        channel.settle(settled, outcome)


def recover_async(channel: Channel, method: Any) -> None:
    if not method.requeue:
        raise Refusal(NOT_IMPLEMENTED, "requeue=false")
    settled = channel.unacked.take_all()
    channel.settle(settled, Outcome.RELEASED)


def recover(channel: Channel, method: Any) -> None:
    if not method.requeue:
        raise Refusal(NOT_IMPLEMENTED, "requeue=false")
    settled = channel.unacked.take_all()
    channel.tell(commands.Basic.RecoverOk())
    channel.settle(settled, Outcome.RELEASED)


def qos(channel: Channel, method: Any) -> None:
    """Set the prefetch limit for later consumers or, if ``global``, for the channel (RabbitMQ)."""
    if method.prefetch_size:
        raise Refusal(NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
    limit = channel.limit
    was_full = not limit.has_room()
    if method.global_:
        limit.limit = method.prefetch_count
    else:
        channel.prefetch = method.prefetch_count
    channel.tell(commands.Basic.QosOk())
    if was_full and limit.has_room():
        channel.dispatch()


def flow(channel: Channel, method: Any) -> None:
    """Stop or resume content at the client's request (channel.flow)."""
    was_active, channel.active = channel.active, bool(method.active)
    channel.tell(commands.Channel.FlowOk(channel.active))
    if channel.active and not was_active:
        channel.dispatch()


HANDLERS: dict[type[base.Frame], Callable[[Channel, Any], None]] = {
    commands.Basic.Consume: consume,
    commands.Basic.Cancel: cancel,
    commands.Basic.CancelOk: cancel_ok,
    commands.Basic.Get: get,
    commands.Basic.Ack: ack,
    commands.Basic.Nack: nack,
    commands.Basic.Reject: reject,
    commands.Basic.RecoverAsync: recover_async,
    commands.Basic.Recover: recover,
    commands.Basic.Qos: qos,
    commands.Channel.Flow: flow,
}
