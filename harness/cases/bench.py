"""The target as a case sees it: a world, peers, methods that hide the clock, and findings.

A bench serves one case or one example of a property. Its events are the case's trace."""

from collections.abc import Callable

from brokerproof.harness.cases.amqp091_peers import Amqp091Peers
from brokerproof.harness.cases.amqp_peers import AmqpPeers
from brokerproof.harness.cases.client_trials import ClientTrials
from brokerproof.harness.cases.example_record import ExampleRecord
from brokerproof.harness.cases.findings import MeasurementJudge
from brokerproof.harness.cases.java_broker_peers import JavaBrokerPeers
from brokerproof.harness.cases.stomp_peers import StompPeers
from brokerproof.harness.clients.activemq_statistics import Statistics
from brokerproof.harness.clients.artemis_management import Admin
from brokerproof.harness.model.broker_io import LimitsSet, ResourcesRead
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import Duration
from brokerproof.harness.oracles import liveness
from brokerproof.harness.targets.target import Overrides, Target
from brokerproof.harness.trace.events import Advanced, LinkFaulted
from brokerproof.harness.worlds.link import LinkFaults
from brokerproof.harness.worlds.virtual import VirtualWorld

BEYOND_THE_WIRE = "the case changed the broker's limits or resources, which a script cannot do"
"""The reason why the bytes of a case that changed the broker are not kept: replayed alone, they
would mean something else."""


class Bench(StompPeers, AmqpPeers, Amqp091Peers, JavaBrokerPeers, ClientTrials, MeasurementJudge):
    """A target as one case sees it: peers, time, the machine's resources, and findings."""

    def __init__(
        self,
        target: Target,
        cited: tuple[str, ...],
        *,
        label: str,
        seed: int = 0,
        overrides: Overrides | None = None,
        example_record: ExampleRecord | None = None,
        situations: tuple[str, ...] = (),
        effort: str = "smoke",
        unbound: frozenset[str] = frozenset(),
    ) -> None:
        self.target = target
        self.cited = cited
        self.unbound = unbound
        self.label = label
        self.seed = seed
        self.overrides = overrides
        self.situations = situations
        self.effort = effort
        self.peers = []
        self.example_record = ExampleRecord() if example_record is None else example_record
        self.world = target.world(seed, overrides, self.record)
        self.example_record.wire.mark = f"{seed:x}"
        self.example_record.seed = seed

    def reached(self, situation: str) -> None:
        """Record that this example reached ``situation``. Raises ``ValueError`` if its property
        does not declare that situation."""
        if situation not in self.situations:
            raise ValueError(f"the property does not declare the situation {situation!r}")
        self.example_record.situations[situation] = 1

    def used_amount(self, what: str, amount: int) -> None:
        """Record that this example used ``amount`` of ``what``, for example "waiting messages". The
        result keeps the maximum."""
        amounts = self.example_record.amounts
        amounts[what] = max(amount, amounts.get(what, 0))

    # methods that hide the clock

    def advance(self, duration: Duration) -> None:
        """Let ``duration`` pass while the world continues."""
        self.record(Advanced(at_ns=self.now(), duration_ns=duration))
        self.world.wait_until(lambda: False, self.now() + duration)

    def wait_until(self, ready: Callable[[], bool], within: Duration) -> bool:
        """Wait until ``ready()`` is true, but at most ``within``; return ``ready()``."""
        return self.world.wait_until(ready, self.now() + within)

    # the broker's machine and what it reports

    def _administer(self) -> None:
        self.has_administered = True
        self.example_record.wire.unkept = BEYOND_THE_WIRE

    def raise_alarm(self, resource: str, *, node: str = "") -> None:
        """Cause a shortage of ``resource`` (memory or disk) on the broker. The target needs the
        "alarms" capability. ``node`` is a node of a cluster (default: the first)."""
        self.record_note(f"{_place(node)} is short of {resource}")
        self._administer()
        self.target.raise_alarm(self.world, resource, node)

    def clear_alarm(self, resource: str, *, node: str = "") -> None:
        """End the shortage of ``resource`` that :meth:`raise_alarm` caused."""
        self.record_note(f"{_place(node)} is no longer short of {resource}")
        self.target.clear_alarm(self.world, resource, node)

    def set_limits(
        self,
        *,
        memory: float | int | None = None,
        disk: float | int | None = None,
        paging: float | None = None,
    ) -> None:
        """Set the running broker's limits for memory and disk alarms.

        A limit is a fraction of the machine's memory (float) or bytes (int). ``paging`` is the
        fraction of the memory limit at which queues start to page out; this needs the
        "memory-paging" capability. The target needs the "alarms" capability."""
        self.record_note(f"the limits are set: memory {memory}, disk {disk}, paging {paging}")
        self._administer()
        self.target.set_limits(self.world, LimitsSet(memory, disk, paging))

    def readings(self, reading: ResourcesRead) -> None:
        """Give the broker a reading of its machine's memory and disk. The target must be virtual
        and needs the "readings" capability."""
        self.record_note(f"the machine: {reading}")
        self._administer()
        assert isinstance(self.world, VirtualWorld)
        self.world.feed(reading)

    def admin(self) -> Admin:
        """Return Artemis management over a separate connection. The target needs the "admin"
        capability."""
        self.has_administered = True
        address = str(self.profile.parameters["management_address"])
        return Admin(self, self.stomp(), address, self.destination())

    def statistics(self) -> Statistics:
        """Return ActiveMQ statistics over a separate connection, for targets with that
        capability."""
        nodes = {
            routing: str(self.profile.parameters[f"{routing.value.lower()}_node"])
            for routing in RoutingType
        }
        return Statistics(self, self.amqp(), self.node(), nodes)

    # virtual links

    def disturb(self, faults: LinkFaults) -> None:
        """Apply these faults to links opened from now on. Real links are not affected."""
        if isinstance(self.world, VirtualWorld):
            self.world.faults = faults
            self.record(LinkFaulted(at_ns=self.now(), detail=str(faults)))

    # calculations from the target's parameters

    def negotiated(
        self, heart_beat: tuple[int, int] | None, version: str = "1.2", acceptor: str | None = None
    ) -> liveness.Negotiated:
        """Return the answer to a ``heart-beat`` header that is expected of this target."""
        return liveness.negotiate(self.parameters(acceptor), heart_beat, version)

    def silence_interval(
        self, ttl_ms: int, acceptor: str | None = None
    ) -> tuple[Duration, Duration]:
        """Return the silence after which this target should close a connection with this TTL."""
        check = self.parameters(acceptor)["connection_ttl_check_interval_ms"]
        assert isinstance(check, int)
        return liveness.silence_interval(ttl_ms, check, exact=self.virtual)

    def close(self) -> None:
        self.world.close()


def _place(node: str) -> str:
    return f"node {node}" if node else "the broker"
