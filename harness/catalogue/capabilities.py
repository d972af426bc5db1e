"""Capabilities: names for what cases need and what targets offer.

``fixtures/capabilities.toml`` lists them. Names that begin with ``x-`` are reserved for third-party
suites and targets."""

import difflib
import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from brokerproof.harness.catalogue.tables import Key, read, table
from brokerproof.harness.model.input_file import OneSentence

FREE = "x-"
"""The prefix of unlisted names: capabilities for third-party suites."""

_LACK = re.compile(r"\bno [\w.-]+(?= \()")
"""The pattern of a capability in a sentence of :func:`missing`."""
_KEYS = {
    "meaning": Key(str),
    "configure": Key(str),
    "family": Key(str, required=False),
    "protocol": Key(str, required=False),
    "endpoints": Key(list, required=False),
    "judged_on": Key(dict, required=False),
    "ours": Key(bool, required=False),
}


class BadCapabilities(OneSentence):
    """A file's capabilities contradict each other, or an absent one has no reason."""


class UnknownCapability(BadCapabilities):
    """A name is not a capability. The message suggests the nearest one."""


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that a broker can do, or that is configured on the broker."""

    name: str
    meaning: str
    configure: str
    """What to do so that the cases that need the capability can run."""
    family: str
    """The profile of the only family whose brokers can have the capability; empty for any
    family."""
    protocol: str
    """The protocol without which no target has the capability; empty for none."""
    endpoints: frozenset[str]
    """The endpoints that give a target with addresses the capability: it must name one of them.
    Empty if any endpoint will do."""
    judged_on: Mapping[str, str]
    """The shipped target that is configured for the capability, by the family's profile."""
    ours: bool
    """True if only brokers that brokerproof starts have the capability."""

    def advice(self, profile: str) -> str:
        """Return how to configure a target of that profile to have this capability."""
        if not self.family or profile == self.family:
            return self.configure
        if profile in _families():
            return f"only {self.family} is judged by it"
        return "only a manual describes it: name one with like = NAME"


@functools.cache
def _families() -> frozenset[str]:
    return frozenset(known.family for known in listed().values() if known.family)


@functools.cache
def listed() -> Mapping[str, Capability]:
    """Return every capability by name. Raises
    :class:`~brokerproof.harness.catalogue.tables.BadData` for an invalid list."""
    path = Path(str(files("brokerproof.fixtures"))) / "capabilities.toml"
    values, _ = read(path)
    return {name: _capability(path, name, row) for name, row in sorted(values.items())}


def _capability(path: Path, name: str, row: Mapping[str, object]) -> Capability:
    entry = table(f"{path}: {name}", _KEYS, row, "capability")
    return Capability(
        name,
        entry.text("meaning"),
        entry.text("configure"),
        entry.text("family"),
        entry.text("protocol"),
        frozenset(entry.values.get("endpoints", ())),
        entry.values.get("judged_on", {}),
        bool(entry.values.get("ours", False)),
    )


def check(names: Iterable[str]) -> None:
    """Raise :class:`UnknownCapability` for the first of ``names`` that is not listed."""
    for name in names:
        if name in listed() or name.startswith(FREE):
            continue
        near = difflib.get_close_matches(name, listed(), n=1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise UnknownCapability(
            f"there is no capability {name!r}; {meant}`brokerproof capabilities` lists them"
        )


def check_reasons(reasons: Mapping[str, object], offered: Iterable[str]) -> None:
    """Raise :class:`BadCapabilities` if an absent capability is not listed, has no reason, or is
    also ``offered``."""
    check(reasons)
    for name, reason in reasons.items():
        if not isinstance(reason, str) or not reason.strip():
            raise BadCapabilities(
                f"{name} has no reason; write why the broker lacks it, and where that is documented"
            )
        if name in offered:
            raise BadCapabilities(f"{name} is also offered; remove it from one of the two lists")


def missing(
    names: Iterable[str], absent: Mapping[str, str] | None = None, profile: str = ""
) -> str:
    """Return the sentence of a SKIP: the capabilities that a target lacks, each with the reason or
    the required configuration. ``absent`` has the known reasons for this target. ``profile`` is the
    target's family: capabilities of other families cannot be configured."""
    reasons = []
    for name in sorted(names):
        known = listed().get(name)
        advice = (absent or {}).get(name) or (known.advice(profile) if known else "")
        reasons.append(f"{name} ({advice})" if advice else name)
    return f"the target has no {'; no '.join(reasons)}"


def main_reasons(skips: Iterable[str], most: int) -> tuple[list[tuple[str, int]], int]:
    """Return the ``most`` main reasons from SKIP sentences, each as "no NAME" with its number of
    cases, and the number of cases with other reasons. A case counts only once, under the most
    frequent capability that it needs and the target lacks. Missing protocols are not named."""
    protocols = {f"no {name}" for name, known in listed().items() if known.protocol == name}
    lacks = [set(_LACK.findall(skip)) or {skip.partition(":")[0]} for skip in skips]
    left = [{"no further protocols"} if names & protocols else names for names in lacks]
    reasons: list[tuple[str, int]] = []
    while left and len(reasons) < most:
        counts = Counter(reason for reasons_of_case in left for reason in sorted(reasons_of_case))
        [(reason, count)] = counts.most_common(1)
        reasons.append((reason, count))
        left = [reasons_of_case for reasons_of_case in left if reason not in reasons_of_case]
    return reasons, len(left)
