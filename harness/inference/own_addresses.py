"""Finds addresses with low limits, and the limits, on a broker that brokerproof did not configure.

It asks Artemis for the settings of an address in a management message, and ActiveMQ for the limit
of a destination through the statistics plugin. If neither answers and the target file names
addresses without a limit, it finds the limit over AMQP 1.0 by bisection. For a target without named
addresses, it tries those of ``brokerproof init-target --show-broker-config``. So a broker
configured that way is judged completely, whether the target is given as a file or as a URL."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.clients.activemq_statistics import STATISTICS
from brokerproof.harness.clients.artemis_management import ADMIN, Admin
from brokerproof.harness.inference.address import infer_address, of_prefix
from brokerproof.harness.protocols.conversation import ControlFailed
from brokerproof.harness.targets.external.target import AddressTarget
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.full_addresses import (
    BOUNDS,
    KINDS,
    POLICIES,
    SHIPPED,
    FullAddresses,
)
from brokerproof.harness.targets.target import Target
from brokerproof.harness.worlds.bounds import LimitReached

_ARTEMIS = frozenset({*POLICIES, "reject", "limited", "pages", "paged-messages"})
_ACTIVEMQ = frozenset({"vm", "off"})
"""The kinds that are queried. "file" is not, because without persistence a file cursor also obeys
the memory limit, which statistics do not show; it is used only if a target file names it."""
_LIMITS: Mapping[str, Mapping[str, str]] = {
    **{policy: {"max_size_bytes": "maxSizeBytes"} for policy in POLICIES},
    "page": {"max_size_bytes": "maxSizeBytes", "page_size_bytes": "pageSizeBytes"},
    "reject": {"max_size_bytes_reject_threshold": "maxSizeBytesRejectThreshold"},
    "pages": {"page_limit_bytes": "pageLimitBytes"},
}
"""The limits of each kind, and their names in the broker's JSON."""
_COUNTS = {"limited": ("maxSizeMessages", 3), "paged-messages": ("pageLimitMessages", 20)}
_FAILURES = (ControlFailed, SetUpFailed, LimitReached)


@dataclass(frozen=True, slots=True)
class Found:
    """The addresses with their limits, and why kinds of addresses or capabilities are unusable."""

    addresses: FullAddresses
    absent: Mapping[str, str]


def complete(target: Target, seed: int) -> None:
    """Find the address limits of a broker that brokerproof did not configure. Targets that
    brokerproof starts are returned unchanged: their configuration is known."""
    if not isinstance(target, AddressTarget):
        return
    bench = Bench(target, (), label="own-addresses", seed=seed)
    try:
        found = _found(bench)
    finally:
        bench.close()
    target.use_addresses(found.addresses, found.absent)


def _found(bench: Bench) -> Found:
    identity = bench.target.identity
    addresses = identity.addresses
    absent: dict[str, str] = {}
    if ADMIN in identity.capabilities:
        try:
            admin = bench.admin()
            admin.require_answers()
        except _FAILURES as problem:
            absent[ADMIN] = f"management messages are not answered: {problem}"
        else:
            addresses = asked_artemis(admin, addresses, absent)
    elif identity.profile.name == "activemq" and "amqp" in identity.capabilities:
        addresses = _asked_activemq(bench, addresses, absent)
    if addresses.prefixes and "max_size_bytes" not in addresses.stated:
        addresses = _bisected(bench, addresses, absent)
    return Found(addresses, absent)


def asked_artemis(admin: Admin, addresses: FullAddresses, absent: dict[str, str]) -> FullAddresses:
    """Return the addresses whose settings match their kind. The first kind sets the limits; kinds
    with other limits are omitted, because cases calculate with one set of limits."""
    candidates = addresses.prefixes or {
        kind: prefix for kind, prefix in SHIPPED.prefixes.items() if kind in _ARTEMIS
    }
    limits: dict[str, int] = {name: getattr(addresses, name) for name in addresses.stated}
    kept: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for kind, prefix in candidates.items():
        try:
            reason = _accepted(admin, kind, prefix, limits)
        except ControlFailed as problem:
            if addresses.prefixes:
                return addresses  # the broker does not support the query: rely on the target file
            reason = str(problem)
        if reason:
            reasons[kind] = reason
        else:
            kept[kind] = prefix
    if addresses.prefixes and reasons:
        absent.update(_reasons(kept, reasons))
    values: dict[str, Any] = dict(limits)
    return replace(addresses, prefixes=kept, stated=frozenset(limits), **values)


def _accepted(admin: Admin, kind: str, prefix: str, limits: dict[str, int]) -> str:
    """Return why addresses of that kind are unusable. If there is no reason, put their limits into
    ``limits``."""
    for word in KINDS[kind] or ("",):
        name = f"{prefix}{word}.x" if word else f"{prefix}x"
        settings = admin.settings(name)
        policy = str(settings.get("addressFullMessagePolicy", "PAGE")).lower()
        expected = {"reject": "block", "pages": "page", "paged-messages": "page"}.get(kind)
        expected = expected or word or kind
        if policy != expected:
            return f"addresses like {name} have the policy {policy.upper()}, not {expected.upper()}"
        if kind in _COUNTS:
            key, count = _COUNTS[kind]
            if settings.get(key) != count:
                return f"{key} of addresses like {name} is {settings.get(key)}, cases need {count}"
        new = {limit: settings.get(key) for limit, key in _LIMITS.get(kind, {}).items()}
        for limit, value in new.items():
            low, high = BOUNDS[limit]
            if not isinstance(value, int) or not low <= value <= high:
                return f"{limit} of addresses like {name} is {value}, cases need {low} to {high}"
            if limits.setdefault(limit, value) != value:
                return f"{limit} of addresses like {name} is {value}, others have {limits[limit]}"
    return ""


def _reasons(kept: Mapping[str, str], reasons: Mapping[str, str]) -> dict[str, str]:
    has = FullAddresses(kept).capabilities
    return {
        capability: "; ".join(reasons.values())
        for capability in FullAddresses(dict.fromkeys(reasons, "x.")).capabilities - has
    }


def _asked_activemq(
    bench: Bench, addresses: FullAddresses, absent: dict[str, str]
) -> FullAddresses:
    """Return the destinations whose memory limit suits the cases."""
    candidates = addresses.prefixes or {
        kind: prefix for kind, prefix in SHIPPED.prefixes.items() if kind in _ACTIVEMQ
    }
    low, high = BOUNDS["memory_limit"]
    kept: dict[str, str] = {}
    limits: set[int] = set()
    try:
        statistics = bench.statistics()
        for kind, prefix in candidates.items():
            name = f"{prefix}{bench.fresh_name()}"
            bench.amqp().sender(bench.node(name=name))
            limit = statistics.destination(name).memory.limit
            if low <= limit <= high and limits <= {limit}:
                kept[kind] = prefix
                limits.add(limit)
    except _FAILURES as problem:
        absent["producer-flow-control"] = absent[STATISTICS] = (
            f"add <statisticsBrokerPlugin/> to the broker's plugins: {problem}"
        )
        return replace(addresses, prefixes={})
    stated = {**{name: getattr(addresses, name) for name in addresses.stated}}
    if limits:
        stated["memory_limit"] = min(limits)
    values: dict[str, Any] = dict(stated)
    return replace(addresses, prefixes=kept, stated=frozenset(stated), **values)


def _bisected(bench: Bench, addresses: FullAddresses, absent: dict[str, str]) -> FullAddresses:
    """Measure the unstated limits of addresses that are limited by bytes."""
    measured = [kind for kind in ("fail", "block", "page", "drop") if kind in addresses.prefixes]
    if not measured or "amqp" not in bench.capabilities:
        return addresses
    kind = measured[0]
    prefix = addresses.prefixes[kind]
    name = of_prefix("max_size_bytes", prefix)
    try:
        estimates = {found.parameter: found for found in infer_address(bench, prefix, None)}
        limit = estimates[name].range
    except (*_FAILURES, KeyError) as problem:
        absent["address-full"] = f"state max_size_bytes in [addresses]: {problem}"
        return replace(addresses, prefixes={})
    low, high = BOUNDS["max_size_bytes"]
    if limit is None or limit.low is None or limit.high is None:
        absent["address-full"] = f"state max_size_bytes in [addresses]: {prefix}* has none"
        return replace(addresses, prefixes={})
    exact = range(math.ceil(limit.low), math.floor(limit.high) + 1)
    # Limits are usually round numbers, so prefer one.
    value = next((number for number in exact if number % 1024 == 0), next(iter(exact), 0))
    if not low <= value <= high:
        absent["address-full"] = f"the limit of {prefix}* is {limit}, cases need {low} to {high}"
        return replace(addresses, prefixes={})
    return replace(addresses, max_size_bytes=value, stated=addresses.stated | {"max_size_bytes"})
