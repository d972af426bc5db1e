"""The interface of a target to the rest of the harness."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeAlias

from brokerproof.harness.catalogue import capabilities
from brokerproof.harness.catalogue.profiles import Profile
from brokerproof.harness.model.broker_io import LimitsSet
from brokerproof.harness.model.cost_limits import Limits
from brokerproof.harness.model.enums import Clock, RoutingType
from brokerproof.harness.targets.full_addresses import SHIPPED, FullAddresses
from brokerproof.harness.trace.events import Observed
from brokerproof.harness.trace.redaction import Redaction
from brokerproof.harness.worlds.world import World

Value: TypeAlias = int | float | str | bool | None
Parameters: TypeAlias = Mapping[str, Value]
"""Effective parameters of an acceptor, by their names in profiles (``connection_ttl_ms`` …)."""

Overrides: TypeAlias = Mapping[str, Mapping[str, Value]]
"""Parameters that a case changes: ``{"acceptor": {…}, "broker": {…}, "address": {…}}``, the last
for every address. Only for reconfigurable targets."""

RECONFIGURABLE = "reconfigurable"
"""The capability of a target whose parameters a case may choose."""


def host_of_amqp091(parameters: Parameters) -> str:
    """Return the virtual host that AMQP 0-9-1 clients open."""
    return str(parameters.get("amqp091_host", "/"))


@dataclass(frozen=True)
class TargetFacts:
    """Facts about a target that a run records once the target is up."""

    broker: str
    version: str
    configuration: str
    """The configuration as text for people: a file's name and digest, or "unknown"."""
    endpoint: str
    tls: str = ""
    """How TLS verified the broker's identity; empty if it has no TLS."""
    judged_as: str = ""
    """The sentence on the rules by which a broker at an address is judged, unless its user named
    them."""
    dialect: Sequence[str] = ()
    """Sentences on the inferred dialect, if only the address was known."""
    addresses: Sequence[Mapping[str, Value]] = ()
    """Limits of addresses in the configuration: see
    :func:`brokerproof.harness.targets.parameters.address_settings`."""


@dataclass(frozen=True)
class Identity:
    """The facts in a target file, known before anything is started."""

    name: str
    kind: str
    profile: Profile
    login: str | None = None
    passcode: str | None = field(default=None, repr=False)
    default_acceptor: str = "stomp"
    default_amqp_acceptor: str = "amqp"
    capabilities: frozenset[str] = field(default_factory=frozenset)
    not_offered: Mapping[str, str] = field(default_factory=dict)
    """The reasons for capabilities that the target does not offer."""
    judged_on: Mapping[str, str] = field(default_factory=dict)
    """Capabilities that the target may have, each with the shipped target on which they are
    judged."""
    unmet: Mapping[str, str] = field(default_factory=dict)
    """Why a kind of address cannot be used for judging: a plain message did not pass through it. By
    protocol and routing, such as "amqp ANYCAST"; "stomp SEND" says why its RECEIPT never
    arrives."""
    scope: frozenset[str] = frozenset()
    """Cases that need one of these capabilities are judged here."""
    cases: frozenset[str] = frozenset()
    """Ids of further cases that are judged here. Without these and without a scope, every case is
    judged here."""
    others_judged_on: str = ""
    """The shipped target on which all other cases are judged."""
    deviations: Path | None = None
    """The list of known deviations of this broker family, if any."""

    @property
    def started_here(self) -> bool:
        """True if the harness starts the broker, so that nobody else needs it."""
        return self.kind != "address"

    def skip_reason(self, needs: frozenset[str], case: str) -> str:
        """Return why ``case``, which needs these capabilities, is not judged here; empty if it
        is."""
        if lack := self.lack_of(needs):
            return lack
        if self.is_out_of_scope(needs, case):
            needed = " or ".join(sorted(self.scope))
            only = f"cases that need {needed}" if needed else "the cases that its file names"
            return f"judged on the target {self.others_judged_on}: {self.name} is for {only}"
        return ""

    def is_bound_by(self, vendor: str | None, needs: Set[str]) -> bool:
        """True if a document binds the target in a case that needs these capabilities. A
        specification binds every broker; a vendor's document binds that vendor's brokers, and
        others only if they offer something that only the vendor describes."""
        listed = capabilities.listed()
        promised = {listed[name].family for name in needs if name in listed}
        return vendor in (None, self.profile.vendor) or vendor in promised

    def lack_of(self, needs: Set[str]) -> str:
        """Return the sentence on those of these capabilities that the target lacks; empty if it has
        all."""
        missing = needs - self.capabilities
        return capabilities.missing(missing, self.absent, self.profile.name) if missing else ""

    @property
    def absent(self) -> dict[str, str]:
        """Return why cases that need these capabilities are not judged here, by capability."""
        elsewhere = {name: f"judged on the target {on}" for name, on in self.judged_on.items()}
        return {**self.not_offered, **elsewhere}

    def without(self, reasons: Mapping[str, str]) -> Identity:
        """Return this identity for a broker that does not offer these capabilities after all."""
        return dataclasses.replace(
            self,
            capabilities=self.capabilities - reasons.keys(),
            not_offered={**self.not_offered, **reasons},
            judged_on={name: on for name, on in self.judged_on.items() if name not in reasons},
        )

    def is_out_of_scope(self, needs: frozenset[str], case: str) -> bool:
        """True if ``case``, which needs these capabilities, is judged on another target."""
        return bool(self.scope or self.cases) and case not in self.cases and not needs & self.scope

    @cached_property
    def redaction(self) -> Redaction:
        """Return the object that removes this target's credentials from everything that a run
        keeps."""
        return Redaction(self.login, self.passcode)

    manual: str = ""
    """The release whose manual binds the target; empty for the release that runs."""
    tag: str = ""
    """Part of every name in a run on a broker that outlives it; otherwise another run with the same
    seed would find the leftovers of the one before."""
    websockets: frozenset[str] = frozenset()
    """Acceptors that speak only STOMP over WebSocket."""
    addresses: FullAddresses = SHIPPED
    """Addresses with low limits, as configured."""
    limits: Limits = field(default_factory=Limits)
    """Bounds of a run in real time."""
    clock_rate: int = 1
    """How many times as fast as the host's clock the broker's and the harness's clocks run."""


class Target(Protocol):
    @property
    def identity(self) -> Identity: ...

    @property
    def clock(self) -> Clock: ...

    def start(self, folder: Path) -> TargetFacts:
        """Make it ready; ``folder`` is for logs. Raises :class:`SetUpFailed`."""

    def stop(self) -> None:
        """Undo :meth:`start`. Harmless if it was never started."""

    def acceptors(self, overrides: Overrides | None = None) -> Mapping[str, Parameters]:
        """Effective parameters by acceptor name."""

    def provide(self, name: str, routing: RoutingType) -> None:
        """Create the AMQP address of that name, on brokers that do not create it when a link is
        attached."""

    def raise_alarm(self, world: World, resource: str, node: str = "") -> None:
        """Cause an alarm for ``resource`` (memory or disk). For targets with the "alarms"
        capability; raises :class:`SetUpFailed`. ``node``: a node of a target with "cluster"
        (default: the first)."""

    def clear_alarm(self, world: World, resource: str, node: str = "") -> None:
        """End the alarm that :meth:`raise_alarm` raised."""

    def set_limits(self, world: World, limits: LimitsSet) -> None:
        """Set the limits of memory and disk alarms, as the broker's administrator can. See
        :meth:`raise_alarm`."""

    def shipped_configuration(self) -> str:
        """Return the text of the configuration that the release ships. For targets with the
        "shipped-configuration" capability; raises :class:`SetUpFailed`."""

    def world(
        self, seed: int, overrides: Overrides | None, observed: Callable[[Observed], None]
    ) -> World:
        """Return a fresh world around this target; virtual targets start a separate broker in
        it."""
