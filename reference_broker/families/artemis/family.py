"""Artemis: memory is limited per address, and the broker answers queries about addresses."""

from brokerproof.reference_broker.families.artemis.accounting import Accounting
from brokerproof.reference_broker.families.artemis.admission import Admission
from brokerproof.reference_broker.families.artemis.management import MANAGEMENT, ManagementAddress
from brokerproof.reference_broker.families.artemis.ttl_liveness import LivenessMonitor
from brokerproof.reference_broker.families.parts import Parts
from brokerproof.reference_broker.kernel.family import BrokerFamily
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.persistence.router_store import Stored
from brokerproof.reference_broker.persistence.store import Store


class ArtemisFamily(BrokerFamily):
    """Uses the accounting of :mod:`brokerproof.reference_broker.families.artemis.accounting`."""

    silence_monitor = LivenessMonitor
    admission_control = Admission

    def __init__(self, parts: Parts) -> None:
        store, clock = parts.store, parts.clock
        accounting = Accounting(parts.settings, parts.rules)
        stored = None if store is None else self.storage(store, parts)
        router = Router(
            parts.settings, parts.rules, accounting, clock, stored=stored, expires=clock.unix
        )
        router.addresses.add(
            ManagementAddress(
                MANAGEMENT,
                accounting.open(MANAGEMENT),
                router.addresses.by_name,
                lambda to, body: router.publish(router.message(to, body)),
            )
        )
        super().__init__(
            router,
            accounting,
            self.admission_control(accounting, stored),
            None if store is None else store.large,
        )

    def storage(self, store: Store, parts: Parts) -> Stored:
        """Return the storage of a router: addresses with limits have pages."""
        settings, rules = parts.settings, parts.rules

        def is_limited(name: str) -> bool:
            rule = rules.of(name)
            limits = (
                rule.max_size_bytes,
                rule.max_size_messages,
                settings.global_max_size_bytes,
                settings.global_max_messages,
            )
            return any(limit >= 0 for limit in limits)

        return Stored(store, is_limited)
