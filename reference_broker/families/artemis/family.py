"""Artemis: memory is limited by address, and the broker answers questions about addresses."""

from __future__ import annotations

from brokerproof.reference_broker.families.artemis.management import (
    MANAGEMENT,
    ManagementAddress,
)
from brokerproof.reference_broker.kernel.family import BrokerFamily
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.persistence.router_store import Stored
from brokerproof.reference_broker.persistence.store import Store
from brokerproof.reference_broker.settings.address_rules import AddressRules
from brokerproof.reference_broker.settings.settings import Settings


class ArtemisFamily(BrokerFamily):
    """Its accounting is that of
    :mod:`brokerproof.reference_broker.families.artemis.accounting`."""

    def add_management_address(self, router: Router) -> None:
        """Let ``router`` answer what is sent to the management address."""
        router.add_address(
            ManagementAddress(
                MANAGEMENT,
                self.accounting.open(MANAGEMENT),
                router.addresses,
                lambda to, body: router.publish(router.message(to, body)),
            )
        )

    def storage(self, store: Store, settings: Settings, rules: AddressRules) -> Stored:
        """Return the storage of a router: addresses that can get full have pages."""

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
