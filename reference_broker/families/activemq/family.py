"""ActiveMQ: the usage of memory and disk is limited, and each message waits for space by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from brokerproof.reference_broker.families.activemq.producer_flow import ProducerFlow
from brokerproof.reference_broker.families.activemq.usage_accounting import UsageAccounting
from brokerproof.reference_broker.kernel.admission import AdmissionControl
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.family import BrokerFamily, HeartBeatRules


class ActiveMqFamily(BrokerFamily):
    """``flow`` decides over each message."""

    stalls_producers = True
    nack_is_final = True
    prefetch_in_messages = True
    qualified_names = True
    heartbeats = HeartBeatRules.MIRRORED

    def __init__(
        self, accounting: UsageAccounting, admission: AdmissionControl, flow: ProducerFlow
    ) -> None:
        super().__init__(accounting, admission)
        self.flow = flow

    @classmethod
    def of(cls, context: BrokerContext) -> Self:
        """Return the family of a broker that is an ActiveMQ."""
        assert isinstance(context.family, cls)
        return context.family

    def next_producer(self) -> Callable[[], None] | None:
        return super().next_producer() or self.flow.next()
