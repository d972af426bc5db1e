"""RabbitMQ: publishers wait while an alarm is raised, and clients declare queues and exchanges."""

from brokerproof.harness.model.broker_io import LimitsSet, ResourcesRead
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.families.parts import Parts
from brokerproof.reference_broker.families.rabbitmq.missed_checks import TwoMissedChecks
from brokerproof.reference_broker.families.rabbitmq.paging import PagingOut
from brokerproof.reference_broker.families.rabbitmq.resources import Resources
from brokerproof.reference_broker.families.rabbitmq.topology import DeadLetter, Topology
from brokerproof.reference_broker.kernel.accounting import UnlimitedAccounting
from brokerproof.reference_broker.kernel.admission import AdmissionControl
from brokerproof.reference_broker.kernel.family import BrokerFamily
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.persistence.router_store import Stored


class RabbitMqFamily(BrokerFamily):
    """If ``paging`` is None, nothing is paged out."""

    virtual_host = "/"
    silence_monitor = TwoMissedChecks

    def __init__(self, parts: Parts, dead_letter: DeadLetter) -> None:
        settings, rabbitmq, store = parts.settings, parts.settings.rabbitmq, parts.store
        assert rabbitmq is not None
        accounting = UnlimitedAccounting(parts.rules)
        stored = None if store is None else Stored(store)
        router = Router(settings, parts.rules, accounting, parts.clock, stored=stored)
        super().__init__(
            router, accounting, AdmissionControl(stored), None if store is None else store.large
        )
        self.resources = Resources(
            parts.alarms, parts.deadlines, rabbitmq.memory_high_watermark, rabbitmq.disk_free_limit
        )
        self.topology = Topology(
            router, parts.deadlines, parts.clock, dead_letter, rabbitmq.queue_rate
        )
        self.paging = (
            None
            if store is None
            else PagingOut(
                self.topology,
                self.resources,
                parts.alarms,
                parts.deadlines,
                store.large,
                rabbitmq.memory_paging_ratio,
            )
        )

    def on_resources_read(self, now: Instant, reading: ResourcesRead) -> None:
        is_first = self.resources.reading is None
        self.resources.read(now, reading)
        if is_first and self.paging is not None:
            self.paging.look(now)

    def on_limits_set(self, now: Instant, limits: LimitsSet) -> None:
        self.resources.set(now, limits.memory, limits.disk)
        if limits.paging is not None and self.paging is not None:
            self.paging.ratio = limits.paging
