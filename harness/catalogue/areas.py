"""The areas of the mission, and the area of each requirement.

A report and a run's last lines state for each area if a broker keeps it, because "1,043 of 1,108
cases" answers no question that a broker's user has.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerproof.harness.model.enums import StrEnum


class Area(StrEnum):
    """A part of the mission; in the order in which areas are reported."""

    HEARTBEAT = "heartbeat"
    WINDOW = "window"
    THRESHOLD = "threshold"
    PAGING = "paging"
    RECOVERY = "recovery"
    PROTOCOL = "protocol"

    @property
    def label(self) -> str:
        """The area in a reader's words."""
        return str(_TABLE[self]["label"])


_TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_IDS = tuple((Area(name), "|".join(_TABLE[name]["ids"])) for name in _TABLE["pattern-order"])
"""The area by the requirement's id; the first pattern that matches counts."""


@functools.cache
def area_of(requirement: str) -> Area:
    """Return the area of a requirement, by its id. What no pattern names is protocol basics."""
    return next((area for area, ids in _IDS if re.search(ids, requirement)), Area.PROTOCOL)


@dataclass(frozen=True, slots=True)
class Core:
    """A part of an area without which it cannot be said to be kept: judged if a requirement whose
    id matches ``ids`` was. ``protocol`` is one that the target speaks; empty for any target."""

    protocol: str
    words: str
    ids: str

    def has(self, requirement: str) -> bool:
        return re.search(self.ids, requirement) is not None


STOMP, AMQP10, AMQP091 = "STOMP", "AMQP 1.0", "AMQP 0-9-1"
_PROTOCOLS = {STOMP: "^STOMP1[012]-", AMQP10: "^AMQP10-", AMQP091: "^AMQP091-"}
_VENDOR = re.compile("^(ARTEMIS|RABBITMQ|ACTIVEMQ)-")

CORES: dict[Area, Sequence[Core]] = {
    area: tuple(Core(*core) for core in _TABLE[area]["core"]) for area in Area
}
"""What each area cannot do without, by protocol."""


def rule_of(requirement: str) -> str:
    """Return whose rule it is: a protocol's, as people write its name, or a vendor's; empty for
    any other."""
    if vendor := _VENDOR.match(requirement):
        return vendor[1]
    return next((name for name, ids in _PROTOCOLS.items() if re.match(ids, requirement)), "")


def core_of(area: Area, rules: Iterable[str]) -> list[Core]:
    """Return the core of ``area`` on a target that is judged by these rules."""
    judged_by = {"", *rules}
    return [core for core in CORES[area] if core.protocol in judged_by]


def silence_of(area: Area, rules: Iterable[str]) -> str:
    """Return why there is nothing to judge in ``area`` by these rules; empty if there is."""
    rules = set(rules)
    protocols = [name for name in _PROTOCOLS if name in rules]
    if not protocols or any(core.protocol for core in core_of(area, rules)):
        return ""
    return str(_TABLE[area].get("silent", "")).format(" and ".join(protocols))
