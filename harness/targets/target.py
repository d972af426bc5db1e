"""The interface of a target to the rest of the harness."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol, Self, TypeAlias

from brokerproof.harness.catalogue import capabilities, release_ranges
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
"""Effective parameters of an acceptor, named as in profiles (``connection_ttl_ms`` …)."""

Overrides: TypeAlias = Mapping[str, Mapping[str, Value]]
"""Parameters that a case changes: ``{"acceptor": {…}, "broker": {…}, "address": {…}}``, where the
last apply to every address. Only for reconfigurable targets."""

RECONFIGURABLE = "reconfigurable"
"""The capability of a target whose parameters a case may choose."""


def sasl_of(parameters: Parameters, login: str | None) -> str:
    """Return the SASL mechanism with which AMQP 1.0 clients log in, or ``codec.NO_SASL``."""
    return str(parameters.get("amqp_sasl", "ANONYMOUS" if login is None else "PLAIN"))


def host_of_amqp091(parameters: Parameters) -> str:
    """Return the virtual host that AMQP 0-9-1 clients open."""
    return str(parameters.get("amqp091_host", "/"))


@dataclass(frozen=True)
class TargetFacts:
    """Facts about a target, which a run records once the target is up."""

    broker: str
    version: str
    configuration: str
    """The configuration, described for people: a file's name and digest, or "unknown"."""
    endpoint: str
    tls: str = ""
    """How TLS verified the broker's identity; empty without TLS."""
    judged_as: str = ""
    """The sentence that says by which rules a broker at an address is judged, unless the user named
    them."""
    dialect: Sequence[str] = ()
    """Sentences about the inferred dialect, if only the address was known."""
    addresses: Sequence[Mapping[str, Value]] = ()
    """The limits of addresses in the configuration; see
    :func:`brokerproof.harness.targets.parameters.address_settings`."""


@dataclass(frozen=True)
class Identity:
    """The facts in a target file, which are known before anything is started."""

    name: str
    kind: str
    profile: Profile
    login: str | None = None
    passcode: str | None = field(default=None, repr=False)
    default_acceptor: str = "stomp"
    default_amqp_acceptor: str = "amqp"
    capabilities: frozenset[str] = field(default_factory=frozenset)
    not_offered: Mapping[str, str] = field(default_factory=dict)
    """Why the target does not offer certain capabilities."""
    judged_on: Mapping[str, str] = field(default_factory=dict)
    """Capabilities that the target may have, each with the shipped target on which it is judged."""
    unmet: Mapping[str, str] = field(default_factory=dict)
    """Why a kind of address cannot be used for judging: a plain message did not pass through it.
    Keys are protocol and routing, such as "amqp ANYCAST"; "stomp SEND" says why the RECEIPT of a
    SEND never arrives."""
    scope: frozenset[str] = frozenset()
    """Cases that need one of these capabilities are judged here."""
    cases: frozenset[str] = frozenset()
    """Ids of further cases that are judged here. Without such ids and without a scope, every case
    is judged here."""
    others_judged_on: str = ""
    """The shipped target on which all other cases are judged."""
    deviations: Path | None = None
    """The list of the broker family's known deviations, if any."""

    @property
    def started_here(self) -> bool:
        """Return True if the harness starts the broker, so that nobody else needs it."""
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
        """Return True if a document binds the target in a case that needs these capabilities. A
        specification binds every broker. A vendor's document binds that vendor's brokers. It binds
        another broker only if that broker offers something that only the vendor describes."""
        listed = capabilities.listed()
        promised = {listed[name].family for name in needs if name in listed}
        return vendor in (None, self.profile.vendor) or vendor in promised

    def lack_of(self, needs: Set[str]) -> str:
        """Return a sentence that names those of these capabilities that the target lacks; empty if
        it lacks none."""
        missing = needs - self.capabilities
        return capabilities.missing(missing, self.absent, self.profile.name) if missing else ""

    @property
    def absent(self) -> dict[str, str]:
        """Return, by capability, why cases that need these capabilities are not judged here."""
        elsewhere = {name: f"judged on the target {on}" for name, on in self.judged_on.items()}
        return {**self.not_offered, **elsewhere}

    def without(self, reasons: Mapping[str, str]) -> Self:
        """Return this identity for a broker that turns out not to offer these capabilities."""
        return dataclasses.replace(
            self,
            capabilities=self.capabilities - reasons.keys(),
            not_offered={**self.not_offered, **reasons},
            judged_on={name: on for name, on in self.judged_on.items() if name not in reasons},
        )

    def of_release(self, release: str) -> Self:
        """Return this identity without the capabilities that the manual of ``release`` does not
        describe. A broker that does not say its release keeps all of them."""
        manual = release_ranges.manual_of(release)
        return self.without(
            {
                name: f"{manual} does not describe it; those of {versions} do"
                for name, versions in self.profile.releases.items()
                if name in self.capabilities and not release_ranges.binds(versions, release)
            }
        )

    def bound_release(self, broker: str, version: str) -> str:
        """Return the release whose manual binds the broker; empty for the newest, since the number
        of another product's release says nothing about the family's manual."""
        return self.manual or (version if self.profile.vendor in broker.lower() else "")

    def is_out_of_scope(self, needs: frozenset[str], case: str) -> bool:
        """Return True if ``case``, which needs these capabilities, is judged on another target."""
        return bool(self.scope or self.cases) and case not in self.cases and not needs & self.scope

    @cached_property
    def redaction(self) -> Redaction:
        """Return the object that removes the target's credentials from what a run keeps."""
        return Redaction(self.login, self.passcode)

    manual: str = ""
    """The release whose manual binds the target; empty for the release that is running."""
    tag: str = ""
    """A part of every name in a run on a broker that outlives the run; otherwise another run with
    the same seed would find the leftovers of the earlier run."""
    websockets: frozenset[str] = frozenset()
    """Acceptors that speak only STOMP over WebSocket."""
    addresses: FullAddresses = SHIPPED
    """Addresses with low limits, as configured."""
    limits: Limits = field(default_factory=Limits)
    """The bounds of a run in real time."""
    clock_rate: int = 1
    """The rate of the broker's and the harness's clocks, relative to the host's clock."""


class Target(Protocol):
    @property
    def identity(self) -> Identity: ...

    @property
    def clock(self) -> Clock: ...

    def start(self, folder: Path) -> TargetFacts:
        """Make the target ready; ``folder`` is for logs. Raises :class:`SetUpFailed`."""

    def stop(self) -> None:
        """Undo :meth:`start`. Does nothing if the target was never started."""

    def acceptors(self, overrides: Overrides | None = None) -> Mapping[str, Parameters]:
        """Effective parameters, by acceptor name."""

    def provide(self, name: str, routing: RoutingType) -> None:
        """Create the AMQP address with that name, on brokers that do not create addresses when a
        link is attached."""

    def raise_alarm(self, world: World, resource: str, node: str = "") -> None:
        """Cause an alarm for ``resource`` (memory or disk) on a target with the "alarms"
        capability. Raises :class:`SetUpFailed`. ``node`` is a node of a target with "cluster" (by
        default, the first)."""

    def clear_alarm(self, world: World, resource: str, node: str = "") -> None:
        """End the alarm that :meth:`raise_alarm` raised."""

    def set_limits(self, world: World, limits: LimitsSet) -> None:
        """Set the limits of the memory and disk alarms, as the broker's administrator can. See
        :meth:`raise_alarm`."""

    def shipped_configuration(self) -> str:
        """Return the text of the configuration that the release ships, for targets with the
        "shipped-configuration" capability. Raises :class:`SetUpFailed`."""

    def world(
        self, seed: int, overrides: Overrides | None, observed: Callable[[Observed], None]
    ) -> World:
        """Return a fresh world around this target; a virtual target starts its own broker there."""
