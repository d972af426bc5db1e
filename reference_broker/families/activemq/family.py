"""ActiveMQ: memory and disk usage are limited, and each message waits for space on its own."""

from collections.abc import Callable

from brokerproof.reference_broker.families.activemq.cursor import CURSORS
from brokerproof.reference_broker.families.activemq.cursor_queue import CursorQueue
from brokerproof.reference_broker.families.activemq.inactivity import InactivityMonitor
from brokerproof.reference_broker.families.activemq.producer_flow import ProducerFlow
from brokerproof.reference_broker.families.activemq.router_store import SpoolingStored
from brokerproof.reference_broker.families.activemq.statistics import (
    AnswerCodec,
    answering,
    is_question,
)
from brokerproof.reference_broker.families.activemq.usage_accounting import UsageAccounting
from brokerproof.reference_broker.families.parts import Parts
from brokerproof.reference_broker.kernel.admission import AdmissionControl
from brokerproof.reference_broker.kernel.family import BrokerFamily
from brokerproof.reference_broker.kernel.queue_and_topic_names import is_topic
from brokerproof.reference_broker.kernel.router import Router


class ActiveMqFamily(BrokerFamily):
    """``flow`` decides on each message."""

    nack_is_final = True
    prefetch_in_messages = True
    qualified_names = True
    silence_monitor = InactivityMonitor

    def __init__(self, parts: Parts, codec: AnswerCodec) -> None:
        settings, clock = parts.settings, parts.clock
        activemq = settings.activemq
        assert activemq is not None
        accounting = UsageAccounting(settings, parts.rules, CURSORS)
        stored = None if parts.store is None else SpoolingStored(parts.store)
        router = Router(
            settings,
            parts.rules,
            accounting,
            clock,
            queue=CursorQueue,
            stored=stored,
            expires=clock.unix,
            special=answering(accounting, codec) if activemq.statistics else None,
        )
        super().__init__(router, accounting, AdmissionControl(stored))
        self.flow = ProducerFlow(
            accounting,
            parts.deadlines,
            clock.instant,
            activemq.stalls_at_the_store,
            stored,
            is_question if activemq.statistics else lambda destination: False,
        )

    def next_producer(self) -> Callable[[], None] | None:
        return super().next_producer() or self.flow.next()

    def prefetch(self, address: str, durable: bool) -> int:
        policy = self.flow.policy(address)
        if not is_topic(address):
            return policy.queue_prefetch
        return policy.durable_topic_prefetch if durable else policy.topic_prefetch
