"""The behaviour of a broker family: one strategy object per broker, chosen by the settings."""

from collections.abc import Callable

from brokerproof.harness.model.broker_io import LimitsSet, ResourcesRead
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.kernel.accounting import MemoryAccounting
from brokerproof.reference_broker.kernel.admission import AdmissionControl
from brokerproof.reference_broker.kernel.large_body import LargeBodies
from brokerproof.reference_broker.kernel.liveness import SilenceMonitor
from brokerproof.reference_broker.kernel.router import Router


class BrokerFamily:
    """By default, a broker has no limits and raises no alarms. ``large`` stores large bodies; if
    None, they stay in memory."""

    nack_is_final = False
    """True if NACK dead-letters a message; False if the message is delivered again."""
    prefetch_in_messages = False
    """True if a STOMP subscription's window counts unacknowledged messages; False for bytes."""
    qualified_names = False
    """True if a queue and a topic may have the same name, and a destination says which of the two
    it means."""
    virtual_host: str | None = None
    """The only virtual host, which a STOMP client selects by naming it in ``host`` or omitting that
    header. Any other name is refused. If None, ``host`` is mandatory from 1.1 on, but ignored."""
    silence_monitor: type[SilenceMonitor]
    """Watches the input of a connection."""

    def __init__(
        self,
        router: Router,
        accounting: MemoryAccounting,
        admission: AdmissionControl,
        large: LargeBodies | None = None,
    ) -> None:
        self.router = router
        self.accounting = accounting
        self.admission = admission
        self.large = large

    def prefetch(self, address: str, durable: bool) -> int:
        """Return the default limit on a STOMP subscription's unacknowledged messages."""
        return 0

    def next_producer(self) -> Callable[[], None] | None:
        """Remove and return the callback of a waiting producer that may continue now."""
        return self.admission.next()

    def on_resources_read(self, now: Instant, reading: ResourcesRead) -> None:
        """Record the available memory and disk space."""

    def on_limits_set(self, now: Instant, limits: LimitsSet) -> None:
        """Apply resource limits that were set while the broker was running."""
