"""What all connections of one broker share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brokerproof.harness.model.time import Duration, Instant
from brokerproof.reference_broker.kernel.accounting import MemoryAccounting
from brokerproof.reference_broker.kernel.admission import AdmissionControl
from brokerproof.reference_broker.kernel.alarms import Alarms
from brokerproof.reference_broker.kernel.connection_info import Arrival
from brokerproof.reference_broker.kernel.deadlines import Deadlines
from brokerproof.reference_broker.kernel.outbox import Outbox
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.settings.settings import Settings

if TYPE_CHECKING:
    from brokerproof.reference_broker.assembly import Parts
    from brokerproof.reference_broker.families.activemq.producer_flow import ProducerFlow
    from brokerproof.reference_broker.families.rabbitmq.resources import Resources
    from brokerproof.reference_broker.families.rabbitmq.topology import Topology
    from brokerproof.reference_broker.kernel.protocol_detection import Connection
    from brokerproof.reference_broker.persistence.large import LargeFiles
    from brokerproof.reference_broker.protocols.amqp10.link import Link


@dataclass(slots=True)
class Shared:
    """``start`` is the instant from which check passes are counted, ``check_interval`` the time
    between them.

    ``now`` is the instant of the input that is being handled, for whoever has to know it far from
    where it came in, and ``conn`` the connection that it came from, None for a timer. ``epoch`` is
    what has to be added to an instant to have nanoseconds since 1970. ``links`` has the attached
    AMQP links by their identity: the peer's container, the name, the peer's role. ``topology`` has
    what was declared, where any acceptor speaks AMQP 0-9-1. ``flow`` decides over each message
    where the usage of memory and disk is limited. ``large`` takes large bodies, where there is a
    disk for them. ``certificates`` has, by connection, the subject of the certificate that the
    transport knows the peer by. ``connections`` are all there are, ``arrivals`` where they came
    from, ``resources`` what is known of memory and disk: for whoever tells of them.
    """

    settings: Settings
    parts: Parts
    router: Router
    deadlines: Deadlines
    outbox: Outbox
    start: Instant
    check_interval: Duration
    session_seed: str
    accounting: MemoryAccounting
    admission: AdmissionControl
    epoch: Duration = 0
    consumers: int = 0
    now: Instant = 0
    conn: int | None = None
    links: dict[tuple[str, str, bool], Link] = field(default_factory=dict)
    certificates: dict[int, str] = field(default_factory=dict)
    large: LargeFiles | None = None
    topology: Topology | None = None
    flow: ProducerFlow | None = None
    alarms: Alarms = field(default_factory=Alarms)
    connections: dict[int, Connection] = field(default_factory=dict)
    arrivals: dict[int, Arrival] = field(default_factory=dict)
    resources: Resources | None = None

    def certified(self, conn: int) -> str | None:
        """The user that the peer's certificate belongs to. Where security is off, that is anybody
        with a certificate."""
        subject = self.certificates.get(conn)
        if subject is None:
            return None
        return self.settings.certificate_users.get(
            subject, None if self.settings.security_enabled else subject
        )

    def next_consumer(self) -> int:
        """A number for a new subscription, unique in the broker, from 1."""
        self.consumers += 1
        return self.consumers
