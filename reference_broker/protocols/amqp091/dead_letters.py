"""Dead letters: messages that leave a queue with a dead letter exchange without being consumed.

A dead letter is published to that exchange with RabbitMQ's ``x-death`` header and the routing key
from the queue's arguments, or else the message's own. The header is a list with an entry for each
queue and reason, latest first. A message that returns to a queue without having been rejected on
the way is dropped, because it would otherwise cycle forever.
"""

from typing import Any

from brokerproof.harness.model.time import NS_PER_S
from brokerproof.reference_broker.families.rabbitmq.limited_queue import EXPIRED, REJECTED
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.kernel.message import Message
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp091 import arguments, methods
from brokerproof.reference_broker.protocols.amqp091.message import (
    Amqp091Message,
    PagedMessage,
    encoded,
    exchange_and_key,
    properties_of,
)


def dead_letter(topology: Topology, queue: Queue, message: Message, why: str) -> None:
    """Publish ``message``, which left ``queue`` for the reason ``why``, to the dead letter
    exchange."""
    declared = topology.of(queue)
    if declared is None:
        return
    name = declared.arguments.get(arguments.DLX)
    exchange = None if not isinstance(name, str) else topology.exchanges.find(name)
    if exchange is None:
        return
    before, key = exchange_and_key(message)
    now = topology.clock.unix()
    properties = methods.properties(properties_of(message, now))
    headers = dict(properties.get("headers") or {})
    deaths = _deaths(headers)
    to = declared.arguments.get(arguments.DLX_KEY, key)
    queues = topology.exchanges.route(exchange, to, headers)
    if why != REJECTED and all(death.get("reason") != REJECTED for death in deaths):
        been = {death.get("queue") for death in deaths} | {queue.name}
        queues = [queue for queue in queues if queue.name not in been]
    headers["x-death"] = _with(deaths, queue.name, why, before, key, now // NS_PER_S)
    for what, value in (("reason", why), ("queue", queue.name), ("exchange", before)):
        headers.setdefault(f"x-first-death-{what}", value)
        headers[f"x-last-death-{what}"] = value
    properties["headers"] = headers
    if why == EXPIRED:
        properties.pop("expiration", None)
    body = b"" if message.large is not None else message.body
    buried = Amqp091Message(
        topology.next_number(), now, exchange.name, to, encoded(properties), body
    )
    if message.large is not None:
        buried = PagedMessage(buried, message.large)
    topology.route(buried, queues)


def _deaths(headers: dict[str, Any]) -> list[dict[str, Any]]:
    deaths = headers.get("x-death")
    return (
        [death for death in deaths if isinstance(death, dict)] if isinstance(deaths, list) else []
    )


def _with(
    deaths: list[dict[str, Any]], queue: str, why: str, exchange: str, key: str, seconds: int
) -> list[dict[str, Any]]:
    same = next(
        (death for death in deaths if death.get("queue") == queue and death.get("reason") == why),
        None,
    )
    if same is not None:
        count = same.get("count")
        latest = {**same, "count": (count if isinstance(count, int) else 0) + 1}
    else:
        latest = {
            **{
                "queue": queue,
                "reason": why,
                "count": 1,
                "exchange": exchange,
                "routing-keys": [key],
            },
            "time": seconds,
        }
    return [latest, *(death for death in deaths if death is not same)]
