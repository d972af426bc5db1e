"""Answers queries about the usage of destinations (ActiveMQ documentation, "StatisticsPlugin").

A message to the queue or topic ``ActiveMQ.Statistics.Destination.NAME`` queries the destination of
that name and kind, and a message to ``ActiveMQ.Statistics.Broker`` queries the broker's limits. The
answer, a map, is sent to the query's reply-to with the query's correlation-id; without a reply-to
or such a destination there is no answer. Neither query nor answer waits for space."""

from typing import Any, Protocol

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.families.activemq.usage import Usage
from brokerproof.reference_broker.families.activemq.usage_accounting import (
    UsageAccount,
    UsageAccounting,
)
from brokerproof.reference_broker.kernel.accounting import MemoryAccount
from brokerproof.reference_broker.kernel.address import Address
from brokerproof.reference_broker.kernel.message import Entry, Message
from brokerproof.reference_broker.kernel.queue_and_topic_names import (
    QUEUE,
    TOPIC,
    is_topic,
    plain,
    qualified,
)
from brokerproof.reference_broker.kernel.router import Router, Special

NAMES = "ActiveMQ.Statistics."
DESTINATION, BROKER = f"{NAMES}Destination.", f"{NAMES}Broker"


class AnswerCodec(Protocol):
    """Reads queries and writes answers in any protocol."""

    def asker(self, message: Message) -> tuple[str, Any]:
        """Return the reply address (empty: none) and the correlation-id of the query."""

    def answer(
        self,
        number: int,
        question: Message,
        address: str,
        routing: RoutingType,
        statistics: dict[str, Any],
    ) -> Message: ...


def is_question(address: str) -> bool:
    return plain(address).startswith(NAMES)


def _place(name: str) -> tuple[str, RoutingType]:
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
    """An address that holds no messages, because each message sent to it is a query."""

    def __init__(
        self, account: UsageAccount, router: Router, accounting: UsageAccounting, codec: AnswerCodec
    ) -> None:
        name = account.name
        super().__init__(
            name, {RoutingType.MULTICAST if is_topic(name) else RoutingType.ANYCAST}, True, account
        )
        self._router = router
        self._accounting = accounting
        self._codec = codec

    def route(
        self, message: Message, routing: RoutingType | None, source_entry: Entry | None = None
    ) -> bool:
        to, _ = self._codec.asker(message)
        statistics = self._statistics()
        if not to or statistics is None:
            return True
        address, kind = _place(to)
        number = self._router.next_number()
        self._router.publish(self._codec.answer(number, message, address, kind, statistics))
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
        address = self._router.addresses.get(name)
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


def answering(accounting: UsageAccounting, codec: AnswerCodec) -> Special:
    """Return the factory of addresses that answer queries."""

    def special(router: Router, account: MemoryAccount) -> Address | None:
        if not is_question(account.name) or not isinstance(account, UsageAccount):
            return None
        return StatisticsAddress(account, router, accounting, codec)

    return special
