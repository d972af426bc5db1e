"""The base class for targets reached over sockets: endpoints by acceptor, a real world for each
case, and one canary."""

import functools
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from brokerproof.harness.model.broker_io import LimitsSet
from brokerproof.harness.model.cost_limits import Limits
from brokerproof.harness.model.enums import Clock, RoutingType
from brokerproof.harness.targets import certificates, parameters
from brokerproof.harness.targets.endpoint import MANAGEMENT
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.local_process import started_at
from brokerproof.harness.targets.target import Identity, Overrides, Parameters, TargetFacts, Value
from brokerproof.harness.trace.events import Observed
from brokerproof.harness.worlds.bounds import RunBounds
from brokerproof.harness.worlds.broker_core_waits import SchedulerDelay
from brokerproof.harness.worlds.host_clock import HostClock
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.tls import Tls
from brokerproof.harness.worlds.wake_up_lateness import Canary
from brokerproof.harness.worlds.world import World


class SocketTarget:
    """Base class for targets in real time. ``config`` is the file whose acceptor parameters apply;
    None if unknown."""

    clock = Clock.REAL
    is_local = False
    """True if the broker is a process on this machine that sends its writes immediately
    (TCP_NODELAY), with nothing between its socket and ours. Otherwise, its last bytes may wait for
    our system's acknowledgement, and a reset would drop them."""

    def __init__(self, identity: Identity, config: Path | None = None) -> None:
        self.identity, self.config = identity, config
        self.host_clock = HostClock(identity.clock_rate)
        self.endpoints: dict[str, tuple[str, int]] = {}
        """Host and port by acceptor name; filled by ``start``."""
        self.tls: dict[str, Tls] = {}
        """TLS settings by acceptor name, for acceptors with TLS; filled by ``start``."""
        self.bounds = RunBounds(identity.limits, self.host_clock)
        self.pages: Path | None = None
        """The broker's paging folder, if the harness started it; set by ``start``."""
        self.canary = Canary()
        self._watched: int | None = None
        """The broker's process, if it runs on this host."""
        self._watched_since: str | None = None
        """When that process began, because another process may get its id later."""
        self.brief = False
        """True if a broker that the harness starts will run for only a few minutes and need not be
        fast."""
        self.is_forked = False
        """True in a process forked from the one that started the target."""

    def start(self, folder: Path) -> TargetFacts:
        raise NotImplementedError

    def acceptors(self, overrides: Overrides | None = None) -> Mapping[str, Parameters]:
        if overrides:
            raise SetUpFailed(f"target {self.identity.name} cannot be reconfigured while it runs")
        return {name: self._known.get(name) or self._unknown(name) for name in self.endpoints}

    def _unknown(self, name: str) -> Parameters:
        """Return the parameters of an acceptor that no file describes; its name shows its
        protocol."""
        by_name = {self.identity.default_amqp_acceptor: "AMQP", MANAGEMENT: "HTTP"}
        protocol = by_name.get(name, "STOMP")
        return {"protocols": protocol, **self.identity.profile.parameters}

    @functools.cached_property
    def _known(self) -> dict[str, dict[str, Value]]:
        if self.config is None:
            return {}
        return parameters.from_file(self.config, self.identity.profile.parameters)

    def provide(self, name: str, routing: RoutingType) -> None:
        """Do nothing, because most brokers create addresses on use."""

    def raise_alarm(self, world: World, resource: str, node: str = "") -> None:
        """Raise :class:`SetUpFailed`, since only some subclasses can raise alarms from outside."""
        raise SetUpFailed(
            f"target {self.identity.name}: cannot raise an alarm for {resource} on this broker"
        )

    def clear_alarm(self, world: World, resource: str, node: str = "") -> None:
        """Do nothing, because :meth:`raise_alarm` never causes a shortage."""

    def set_limits(self, world: World, limits: LimitsSet) -> None:
        """Raise :class:`SetUpFailed`, as :meth:`raise_alarm` does."""
        raise SetUpFailed(f"target {self.identity.name}: the limits of this broker cannot be set")

    def world(
        self, seed: int, overrides: Overrides | None, observed: Callable[[Observed], None]
    ) -> RealWorld:
        return RealWorld(
            self.endpoints,
            self.canary,
            self.tls,
            is_local=self.is_local,
            bounds=self.bounds,
            pages=self.pages,
            host_clock=self.host_clock,
        )

    def shipped_configuration(self) -> str:
        """Raise :class:`SetUpFailed`, because only some releases ship a readable configuration."""
        raise SetUpFailed(
            f"target {self.identity.name}: the configuration shipped with its release is unknown"
        )

    def trust(self, folder: Path) -> None:
        """Use TLS for the acceptors configured for it, with the certificates created in
        ``folder``."""
        tls = Tls(folder / certificates.AUTHORITY, certificates=folder)
        self.tls = {
            name: tls for name, acceptor in self._known.items() if parameters.has_tls(acceptor)
        }

    def watch_the_host(self, broker: int | None = None) -> None:
        """Start the canary once the broker is up, so that the broker's start does not affect its
        readings. A restarted target gets a new canary. ``broker`` is the broker's process if it is
        on this host."""
        self._watched = broker
        self._watched_since = None if broker is None else started_at(broker)
        self._measure(self.identity.limits)

    def _measure(self, limits: Limits) -> None:
        pid = self._watched
        self.canary = Canary(
            None if pid is None else SchedulerDelay(pid), host_clock=self.host_clock
        )
        self.canary.start()
        self.bounds = RunBounds(limits, self.host_clock)

    def continue_in_fork(self, limits: Limits) -> None:
        """Make this copy of a started target usable in a forked process, with separate ``limits``.
        A fork does not copy threads, and a connection cannot be shared, so the canary and the
        bounds are new, and a subclass that has connections opens new ones. The process that started
        the broker also stops it."""
        self.is_forked = True
        self._measure(limits)

    @property
    def on_this_host(self) -> bool:
        """True if the broker is known to run on this host."""
        return self.identity.started_here or self._watched is not None

    def process_end(self) -> str:
        """Return how the broker's process ended, if it is our child; empty while it runs."""
        return ""

    def has_ended(self) -> bool:
        """Return True if the broker's process was on this host and has ended."""
        pid = self._watched
        return pid is not None and started_at(pid) != self._watched_since

    def watch_again(self) -> None:
        """Watch the process that serves now, because the earlier one ended."""

    def kill(self) -> None:
        """Kill the broker's process if the harness started it on this host, because a broker that a
        case has harmed might take too long for a clean shutdown. The caller stops the target
        afterwards."""
        pid = self._watched
        if pid is None or not self.identity.started_here or self._watched_since is None:
            return
        if started_at(pid) == self._watched_since:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        if self.canary.running:
            self.canary.stop()
