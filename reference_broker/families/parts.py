"""The parts from which a family is assembled: settings, clock, deadlines, alarms, store."""

from dataclasses import dataclass

from brokerproof.reference_broker.kernel.alarms import Alarms
from brokerproof.reference_broker.kernel.clock import Clock
from brokerproof.reference_broker.kernel.deadlines import Deadlines
from brokerproof.reference_broker.persistence.store import Store
from brokerproof.reference_broker.settings.address_rules import AddressRules
from brokerproof.reference_broker.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    """``store`` keeps messages that exceed memory or must survive a restart; None: no store."""

    settings: Settings
    rules: AddressRules
    clock: Clock
    deadlines: Deadlines
    alarms: Alarms
    store: Store | None
