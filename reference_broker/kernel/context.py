"""The state shared by all connections of one broker."""

from dataclasses import dataclass, field
from typing import TypeVar

from brokerproof.harness.model.time import Duration, Instant
from brokerproof.reference_broker.kernel.accounting import MemoryAccounting
from brokerproof.reference_broker.kernel.admission import AdmissionControl
from brokerproof.reference_broker.kernel.alarms import Alarms
from brokerproof.reference_broker.kernel.clock import Clock
from brokerproof.reference_broker.kernel.connection import Connection
from brokerproof.reference_broker.kernel.connection_info import Arrival
from brokerproof.reference_broker.kernel.deadlines import Deadlines
from brokerproof.reference_broker.kernel.family import BrokerFamily
from brokerproof.reference_broker.kernel.large_body import LargeBodies
from brokerproof.reference_broker.kernel.outbox import Outbox
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.settings.settings import Settings

State = TypeVar("State")


@dataclass(slots=True)
class BrokerContext:
    """``start`` is the instant from which periodic checks are counted; ``check_interval`` is the
    time between checks.

    ``large`` stores large bodies if there is a disk. ``certificates`` has the client certificate's
    subject by connection. ``connections`` has all connections, ``arrivals`` their endpoints."""

    settings: Settings
    family: BrokerFamily
    router: Router
    clock: Clock
    deadlines: Deadlines
    outbox: Outbox
    start: Instant
    check_interval: Duration
    session_seed: str
    accounting: MemoryAccounting
    admission: AdmissionControl
    alarms: Alarms
    large: LargeBodies | None = None
    consumers: int = 0
    certificates: dict[int, str] = field(default_factory=dict)
    connections: dict[int, Connection] = field(default_factory=dict)
    arrivals: dict[int, Arrival] = field(default_factory=dict)
    _states: dict[type, object] = field(default_factory=dict)

    def state(self, kind: type[State]) -> State:
        """Return this broker's only ``kind`` object, which a protocol's connections share."""
        state = self._states.get(kind)
        if state is None:
            state = self._states[kind] = kind()
        assert isinstance(state, kind)
        return state

    def certified(self, conn: int) -> str | None:
        """Return the user to whom the peer's certificate belongs. If security is off, any
        certificate is accepted."""
        subject = self.certificates.get(conn)
        if subject is None:
            return None
        return self.settings.certificate_users.get(
            subject, None if self.settings.security_enabled else subject
        )

    def next_consumer(self) -> int:
        """Return a number, from 1, for a new subscription; it is unique in the broker."""
        self.consumers += 1
        return self.consumers
