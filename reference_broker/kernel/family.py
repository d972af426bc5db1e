"""What a family of brokers does in its own way: one strategy object per broker, chosen from the
settings when it is put together."""

from __future__ import annotations

from collections.abc import Callable

from brokerproof.harness.model.broker_io import LimitsSet, ResourcesRead
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.kernel.accounting import MemoryAccounting
from brokerproof.reference_broker.kernel.admission import AdmissionControl
from brokerproof.reference_broker.kernel.alarms import Alarms


class BrokerFamily:
    """The defaults are those of a broker that limits nothing and raises no alarms."""

    stalls_producers = False
    """True if each message waits for space by itself, in the hands of a producer flow."""

    def __init__(self, accounting: MemoryAccounting, admission: AdmissionControl) -> None:
        self.accounting = accounting
        self.admission = admission
        self.alarms = Alarms()

    def next_producer(self) -> Callable[[], None] | None:
        """Return how one of the producers that waited goes on now; it waits no longer."""
        return self.admission.next()

    def on_resources_read(self, now: Instant, reading: ResourcesRead) -> None:
        """Take note of how much memory and disk space there is."""

    def on_limits_set(self, now: Instant, limits: LimitsSet) -> None:
        """Apply limits of resources that were set while the broker runs."""
