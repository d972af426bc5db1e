"""RabbitMQ: publishers wait while an alarm is raised, and clients declare queues and exchanges."""

from __future__ import annotations

from typing import Protocol, Self

from brokerproof.harness.model.broker_io import LimitsSet, ResourcesRead
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.families.rabbitmq.resources import Resources
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.kernel.accounting import MemoryAccounting
from brokerproof.reference_broker.kernel.admission import AdmissionControl
from brokerproof.reference_broker.kernel.alarms import Alarms
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.family import BrokerFamily, HeartBeatRules


class Paging(Protocol):
    """Writes out what queues hold before memory is short."""

    ratio: float
    """Of the memory limit, from which on it does."""

    def look(self, now: Instant) -> None:
        """Look whether memory is needed, now and again."""


class RabbitMqFamily(BrokerFamily):
    """``paging`` is None where nothing is written out."""

    virtual_host = "/"
    heartbeats = HeartBeatRules.WHOLE_SECONDS
    paging: Paging | None = None

    def __init__(
        self,
        accounting: MemoryAccounting,
        admission: AdmissionControl,
        alarms: Alarms,
        resources: Resources,
        topology: Topology,
    ) -> None:
        super().__init__(accounting, admission)
        self.alarms = alarms
        self.resources = resources
        self.topology = topology

    @classmethod
    def of(cls, context: BrokerContext) -> Self:
        """Return the family of a broker that is a RabbitMQ."""
        assert isinstance(context.family, cls)
        return context.family

    def on_resources_read(self, now: Instant, reading: ResourcesRead) -> None:
        is_first = self.resources.reading is None
        self.resources.read(now, reading)
        if is_first and self.paging is not None:
            self.paging.look(now)

    def on_limits_set(self, now: Instant, limits: LimitsSet) -> None:
        self.resources.set(now, limits.memory, limits.disk)
        if limits.paging is not None and self.paging is not None:
            self.paging.ratio = limits.paging
