"""The areas of brokerproof's mission, and the area to which each requirement belongs.

For each area, the report and the last lines of a run say whether the broker keeps its promises,
because "1,043 of 1,108 cases" does not answer a user's question."""

import functools
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerproof.harness.model.enums import StrEnum


class Area(StrEnum):
    """A part of the mission. Reports use this order."""

    HEARTBEAT = "heartbeat"
    WINDOW = "window"
    THRESHOLD = "threshold"
    PAGING = "paging"
    RECOVERY = "recovery"
    PROTOCOL = "protocol"

    @property
    def label(self) -> str:
        return str(_TABLE[self]["label"])


_TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_IDS = tuple((Area(name), "|".join(_TABLE[name]["ids"])) for name in _TABLE["pattern-order"])
"""Patterns of requirement ids, each with its area; the first match decides."""


@functools.cache
def area_of(requirement: str) -> Area:
    """Return the area of a requirement id; protocol basics if none matches."""
    return next((area for area, ids in _IDS if re.search(ids, requirement)), Area.PROTOCOL)


@dataclass(frozen=True, slots=True)
class Core:
    """A part of an area that must be judged before the area counts as kept. The part counts as
    judged if a requirement matching ``ids`` was judged. It applies to targets that speak
    ``protocol`` (empty: to all)."""

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
"""The core of each area by protocol. An area counts as kept only if its core was judged."""


def rule_of(requirement: str) -> str:
    """Return the usual name of the protocol or vendor that states the rule; empty for anyone
    else."""
    if vendor := _VENDOR.match(requirement):
        return vendor[1]
    return next((name for name, ids in _PROTOCOLS.items() if re.match(ids, requirement)), "")


def core_of(area: Area, rules: Iterable[str]) -> list[Core]:
    """Return the core of ``area`` for a target that is judged by these rules."""
    judged_by = {"", *rules}
    return [core for core in CORES[area] if core.protocol in judged_by]


def silence_of(area: Area, rules: Iterable[str]) -> str:
    """Return why these rules contain nothing to judge in ``area``; empty if they contain
    something."""
    rules = set(rules)
    protocols = [name for name in _PROTOCOLS if name in rules]
    if not protocols or any(core.protocol for core in core_of(area, rules)):
        return ""
    return str(_TABLE[area].get("silent", "")).format(" and ".join(protocols))
