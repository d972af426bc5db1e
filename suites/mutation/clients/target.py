"""A style or a fault of the small client as a target: ``--target small-client:NAME``."""

from brokerproof.harness.catalogue import profiles
from brokerproof.harness.targets.client.virtual import VirtualClientTarget
from brokerproof.harness.targets.target import Identity
from brokerproof.suites.mutation.clients.faults import FAULTS
from brokerproof.suites.mutation.clients.small_client import STYLES


def load(name: str) -> VirtualClientTarget:
    """Raises ``ValueError`` when there is no style or fault of that name."""
    known = {**STYLES, **{fault.name: fault.client for fault in FAULTS.values()}}
    if name not in known:
        raise ValueError(f"there is no small client {name!r}; there are {', '.join(known)}")
    profile = profiles.load("stomp-client")
    identity = Identity(
        f"small-client-{name}", "mutant", profile, capabilities=profile.capabilities
    )
    return VirtualClientTarget(identity, known[name])
