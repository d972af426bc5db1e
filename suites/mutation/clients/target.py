"""A style or a fault of a small client as a target: ``--target small-client:NAME``."""

from brokerproof.harness.catalogue import profiles
from brokerproof.harness.targets.client.virtual import VirtualClientTarget
from brokerproof.harness.targets.target import Identity
from brokerproof.suites.mutation.clients import amqp091_faults as amqp091_faults
from brokerproof.suites.mutation.clients import amqp10_faults as amqp10_faults
from brokerproof.suites.mutation.clients import (
    small_amqp091_client,
    small_amqp10_client,
    small_client,
)
from brokerproof.suites.mutation.clients.faults import FAULTS
from brokerproof.suites.mutation.clients.sans_io import SansIoClient
from brokerproof.suites.mutation.clients.small_amqp10_client import SmallAmqp10Client
from brokerproof.suites.mutation.clients.small_client import SmallClient

STYLES: dict[str, type[SansIoClient]] = {
    **small_client.STYLES,
    **small_amqp091_client.STYLES,
    **small_amqp10_client.STYLES,
}
PROFILES = {SmallClient: "stomp-client", SmallAmqp10Client: "amqp10-client"}


def load(name: str) -> VirtualClientTarget:
    """Load a style or fault. Raises ``ValueError`` if it is unknown."""
    known = {**STYLES, **{fault.name: fault.client for fault in FAULTS.values()}}
    if name not in known:
        raise ValueError(f"there is no small client {name!r}; there are {', '.join(known)}")
    found = (profile for kind, profile in PROFILES.items() if issubclass(known[name], kind))
    profile = profiles.load(next(found, "amqp091-client"))
    identity = Identity(
        f"small-client-{name}", "mutant", profile, capabilities=profile.capabilities
    )
    return VirtualClientTarget(identity, known[name])
