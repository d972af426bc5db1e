"""The behaviour of a family of brokers: one strategy object per broker, chosen from the settings
when the broker is assembled."""

from __future__ import annotations

import enum
from collections.abc import Callable

from brokerproof.harness.model.broker_io import LimitsSet, ResourcesRead
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.kernel.accounting import MemoryAccounting
from brokerproof.reference_broker.kernel.admission import AdmissionControl
from brokerproof.reference_broker.kernel.alarms import Alarms


class HeartBeatRules(enum.Enum):
    """The rules by which STOMP heartbeats are negotiated and a silent peer is noticed."""

    TTL = enum.auto()
    """Artemis: a connection has a time to live
    (:mod:`brokerproof.reference_broker.families.artemis.ttl_liveness`)."""
    MIRRORED = enum.auto()
    """ActiveMQ: the client's interval is accepted, and checked once per interval
    (:mod:`brokerproof.reference_broker.families.activemq.inactivity`)."""
    WHOLE_SECONDS = enum.auto()
    """RabbitMQ: intervals are whole seconds, and two checks without data end the connection."""


class BrokerFamily:
    """The defaults are those of a broker that limits nothing and raises no alarms."""

    stalls_producers = False
    """True if each message waits for space by itself, in the hands of a producer flow."""
    nack_is_final = False
    """True if NACK dead-letters a message at once; False if the message is delivered again."""
    prefetch_in_messages = False
    """True if the window of a STOMP subscription counts unacknowledged messages; False if it counts
    bytes."""
    qualified_names = False
    """True if a queue and a topic of one name are distinct, and a destination says which it is."""
    virtual_host: str | None = None
    """The only virtual host, which a STOMP client names by ``host`` or by leaving it out; any other
    is refused. None: ``host`` must be there from 1.1 on, and is ignored."""
    heartbeats = HeartBeatRules.TTL

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
