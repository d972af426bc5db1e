"""Answers to messages that ask how much destinations hold (ActiveMQ documentation,
"StatisticsPlugin").

A message to ``ActiveMQ.Statistics.Destination.NAME``, a queue or a topic, asks about the
destination of that name and kind; one to ``ActiveMQ.Statistics.Broker`` about the limits of all of
the broker. The answer goes to its reply-to, with its correlation-id, and is a map; without a
reply-to, or a destination of that name, there is none. Neither question nor answer waits for space.
"""

from __future__ import annotations

from typing import Any

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.families.activemq.usage import Usage
from brokerproof.reference_broker.families.activemq.usage_accounting import (
    UsageAccount,
    UsageAccounting,
)
from brokerproof.reference_broker.kernel.accounting import MemoryAccount
from brokerproof.reference_broker.kernel.address import Address
from brokerproof.reference_broker.kernel.message import Entry, Envelope, Message
from brokerproof.reference_broker.kernel.queue_and_topic_names import (
    QUEUE,
    TOPIC,
    is_topic,
    plain,
    qualified,
)
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.protocols.amqp10.encoder import mapping
from brokerproof.reference_broker.protocols.amqp10.message import (
    NO_PREFIX,
    AmqpMessage,
    properties_of,
)
from brokerproof.reference_broker.protocols.amqp10.messaging import Properties

NAMES = "ActiveMQ.Statistics."
DESTINATION, BROKER = f"{NAMES}Destination.", f"{NAMES}Broker"
_VALUE = b"\0\x53\x77"


def is_asked(address: str) -> bool:
    """Return True if messages to ``address`` are questions."""
    return plain(address).startswith(NAMES)


def _asker(message: Message) -> tuple[str, Any]:
    """Return the address of the answer, empty for none, and the question's correlation-id."""
    if isinstance(message, AmqpMessage):
        properties = properties_of(message.bare) or Properties()
        return properties.reply_to or "", properties.correlation_id
    headers = dict(reversed(message.envelope.headers))
    return headers.get("reply-to", ""), headers.get("correlation-id")


def _place(name: str) -> tuple[str, RoutingType]:
    """Return the address that a reply-to of any protocol names."""
    for prefix, routing in (
        *((prefix, RoutingType.ANYCAST) for prefix in (QUEUE, "/queue/")),
        *((prefix, RoutingType.MULTICAST) for prefix in (TOPIC, "/topic/")),
    ):
        if name.startswith(prefix):
            return qualified(name[len(prefix) :], routing), routing
    return qualified(name, RoutingType.ANYCAST), RoutingType.ANYCAST


def _usage(what: str, usage: Usage) -> dict[str, int]:
    return {
        f"{what}Usage": usage.used,
        f"{what}Limit": usage.limit,
        f"{what}PercentUsage": usage.percent,
    }


class StatisticsAddress(Address):
    """An address without messages: each message sent to it is a question."""

    def __init__(
        self, name: str, account: UsageAccount, router: Router, accounting: UsageAccounting
    ) -> None:
        super().__init__(
            name, {RoutingType.MULTICAST if is_topic(name) else RoutingType.ANYCAST}, True, account
        )
        self._router, self._accounting = router, accounting

    def route(
        self, message: Message, routing: RoutingType | None, source_entry: Entry | None = None
    ) -> bool:
        """Answer ``message``."""
        to, correlation = _asker(message)
        statistics = self._statistics()
        if not to or statistics is None:
            return True
        address, kind = _place(to)
        bare = b"".join(
            (Properties(to=to, correlation_id=correlation).encode(), _VALUE, mapping(statistics))
        )
        envelope = Envelope(address, to, kind, (), text=False)
        answer = AmqpMessage(
            self._router.next_number(), envelope, message.arrived, NO_PREFIX, None, b"", bare
        )
        self._router.publish(answer)
        return True

    def _statistics(self) -> dict[str, Any] | None:
        asked = plain(self.name)
        if asked.startswith(DESTINATION):
            kind = TOPIC if is_topic(self.name) else QUEUE
            return self._of(kind + asked.removeprefix(DESTINATION))
        if asked == BROKER:
            usage = self._accounting.usage
            return {
                **_usage("memory", usage.memory),
                **_usage("store", usage.store),
                **_usage("temp", usage.temp),
            }
        return None

    def _of(self, name: str) -> dict[str, Any] | None:
        address = self._router.get_address(name)
        if address is None or not isinstance(address.account, UsageAccount):
            return None
        account, queues = address.account, address.queues
        out = sum(queue.unsettled for queue in queues)
        return {
            "destinationName": name,
            "size": sum(len(queue) for queue in queues) + out,
            "inflightCount": out,
            "enqueueCount": account.sends,
            "dequeueCount": account.done,
            "consumerCount": sum(queue.consumers for queue in queues),
            **_usage("memory", account.memory),
        }


def answered_by(router: Router, accounting: UsageAccounting) -> None:
    """Have ``router`` answer questions."""

    def special(name: str, account: MemoryAccount) -> Address | None:
        if not is_asked(name) or not isinstance(account, UsageAccount):
            return None
        return StatisticsAddress(name, account, router, accounting)

    router.special = special
    accounting.is_question = is_asked
