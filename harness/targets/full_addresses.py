"""Addresses with low limits, as configured on a broker: their names and limits. A case names a kind
of address, and uses fresh addresses whose names begin with that kind's prefix. The defaults are
those in ``fixtures/brokers``, which ``brokerproof init-target --show-broker-config`` prints."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from brokerproof.harness.model.input_file import OneSentence

POLICIES = ("block", "fail", "page", "drop")
KINDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys((*POLICIES, "reject"), ()),
    "limited": POLICIES,
    "pages": ("fail", "drop"),
    "paged-messages": ("fail", "drop"),
    **dict.fromkeys(("vm", "file", "off"), ()),
}
"""The kinds of address, each with the words after its prefix. "limited" kinds hold three messages;
pages of "paged-messages" hold twenty."""
CAPABILITIES: Mapping[str, frozenset[str]] = {
    "address-full": frozenset(POLICIES) | {"limited", "reject"},
    "paging": frozenset({"page"}),
    "page-limits": frozenset({"pages", "paged-messages"}),
    "core-fixtures": frozenset({"block"}),
    "producer-flow-control": frozenset({"vm", "file", "off"}),
    "statistics": frozenset({"vm", "file", "off"}),
}
"""Capabilities of a target that has one of these kinds."""


class BadAddresses(OneSentence):
    """An unusable address entry in a target file. The message gives the key and what would be
    right."""


@dataclass(frozen=True, slots=True)
class FullAddresses:
    """Prefixes by kind, and limits in bytes or messages, which all addresses of a kind share."""

    prefixes: Mapping[str, str] = field(default_factory=dict)
    max_size_bytes: int = 20_480
    """The limit of every address that is not limited by messages."""
    max_size_bytes_reject_threshold: int = 40_960
    """The threshold for the kind "reject"."""
    page_size_bytes: int = 10_240
    page_limit_bytes: int = 51_200
    """The limit for the kind "pages"."""
    memory_limit: int = 20_480
    """ActiveMQ's memoryLimit for the kinds "vm", "file" and "off"."""
    stated: frozenset[str] = frozenset()
    """The limits that the target file states; the others may be requested from the broker."""

    def prefix(self, kind: str) -> str | None:
        """Return the prefix for names of that kind, such as ``block`` or ``limited.fail``; None if
        the target has none."""
        first, dot, rest = kind.partition(".")
        prefix = self.prefixes.get(first)
        return None if prefix is None else f"{prefix}{rest}{dot}"

    def named_in(self, configuration: str) -> Self:
        """Return these addresses without the kinds that a broker's configuration does not name."""
        named = {kind: name for kind, name in self.prefixes.items() if name in configuration}
        return replace(self, prefixes=named)

    @property
    def capabilities(self) -> frozenset[str]:
        return frozenset(
            name for name, kinds in CAPABILITIES.items() if kinds & self.prefixes.keys()
        )

    def settings(self) -> list[dict[str, str | int]]:
        """Return the limits of each kind, as a run records them next to a configuration file's."""
        return [
            {
                "match": f"{prefix}#",
                "address_full_policy": kind.upper(),
                "max_size_bytes": self.max_size_bytes,
            }
            for kind, prefix in self.prefixes.items()
            if kind in POLICIES
        ]


SHIPPED = FullAddresses({kind: f"full.{'three' if kind == 'limited' else kind}." for kind in KINDS})
"""The addresses in ``fixtures/brokers``."""
BOUNDS: Mapping[str, tuple[int, int]] = {
    "max_size_bytes": (16_384, 131_072),
    "max_size_bytes_reject_threshold": (32_768, 262_144),
    "page_size_bytes": (4_096, 65_536),
    "page_limit_bytes": (16_384, 524_288),
    "memory_limit": (16_384, 131_072),
}
"""The range of each limit that suits the cases. Lower limits hold no messages, and higher ones need
too many to fill the address in time."""


def read(values: Mapping[str, Any]) -> FullAddresses:
    """Return the contents of the ``[addresses]`` table of a target file. Raises
    :class:`BadAddresses`."""
    limits = set(BOUNDS)
    prefixes: dict[str, str] = {}
    stated: dict[str, Any] = {}
    for key, value in values.items():
        if key in KINDS:
            if not isinstance(value, str) or not value or "#" in value or "*" in value:
                raise BadAddresses(
                    f"addresses.{key} is {value!r:.60}; it must be a prefix of address names,"
                    f' for example "full.{key}."'
                )
            prefixes[key] = value
        elif key in limits:
            low, high = BOUNDS[key]
            if type(value) is not int or not low <= value <= high:
                raise BadAddresses(
                    f"addresses.{key} is {value!r:.60}; cases need a number from {low} to {high}"
                )
            stated[key] = value
        else:
            raise BadAddresses(
                f"addresses has no key {key!r}; its keys are {', '.join(KINDS)}, and the limits"
                f" {', '.join(sorted(limits))}"
            )
    made = replace(FullAddresses(prefixes), **stated, stated=frozenset(stated))
    if made.page_limit_bytes % made.page_size_bytes:
        raise BadAddresses("addresses.page_limit_bytes should be a multiple of page_size_bytes")
    return made
