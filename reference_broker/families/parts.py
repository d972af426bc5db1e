"""What each family is assembled from: settings, clock, deadlines, alarms and the store."""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.reference_broker.kernel.alarms import Alarms
from brokerproof.reference_broker.kernel.clock import Clock
from brokerproof.reference_broker.kernel.deadlines import Deadlines
from brokerproof.reference_broker.persistence.store import Store
from brokerproof.reference_broker.settings.address_rules import AddressRules
from brokerproof.reference_broker.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    """``store`` keeps messages that do not fit into memory or must survive a restart; None if
    everything is kept in memory."""

    settings: Settings
    rules: AddressRules
    clock: Clock
    deadlines: Deadlines
    alarms: Alarms
    store: Store | None
