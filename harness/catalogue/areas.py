"""The areas of the mission, and the area of each requirement.

A report and a run's last lines state for each area if a broker keeps it, because "1,043 of 1,108
cases" answers no question that a broker's user has.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
        return _LABELS[self]


_LABELS = {
    Area.HEARTBEAT: "heartbeats and TTL",
    Area.WINDOW: "windows and credit",
    Area.THRESHOLD: "block or reject",
    Area.PAGING: "paging and order",
    Area.RECOVERY: "delivery and recovery",
    Area.PROTOCOL: "protocol basics",
}

_IDS = (
    (Area.HEARTBEAT, r"-(HB|hb|ttl|IDLE|INACT)-|^ARTEMIS-TTL-"),
    (
        Area.THRESHOLD,
        r"^ARTEMIS-FLOW-(block-|amqp-[234]$)|^ARTEMIS-PAGING-(8|12|13|14|15)$|^ACTIVEMQ-PFC-"
        r"|^RABBITMQ-FLOW-(mem|disk|conn|notify|cluster)-|^RABBITMQ-AMQP091-LEN-",
    ),
    (
        Area.WINDOW,
        r"^AMQP10-(CREDIT|WIN)-|^ARTEMIS-FLOW-|^ARTEMIS-STOMP-window-|-QOS-|-PREFETCH-"
        r"|^OPENWIRE-ACK-",
    ),
    (
        Area.PAGING,
        r"^ARTEMIS-PAGING-|^RABBITMQ-FLOW-page-|^ACTIVEMQ-ORDER-|^ARTEMIS-GROUPING-fifo-"
        r"|^AMQP091-PUB-04$",
    ),
    (
        Area.RECOVERY,
        r"-(TX|TXN|tx|BEGIN|COMMIT|ABORT|ACK|NACK|REJ|REC|RED|OUT|DISP|RESUME|durable)-"
        r"|^ARTEMIS-(REDELIVERY|CONCEPTS)-|^RABBITMQ-AMQP091-CONF-",
    ),
)
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
    Area.HEARTBEAT: (
        Core(STOMP, "heartbeats of the broker", "^STOMP1[12]-HB-0[79]$"),
        Core(STOMP, "silence of a client", "^STOMP1[12]-HB-(06|11)$|-ttl-"),
        Core(AMQP10, "the idle time-out that a client asks for", "^AMQP10-IDLE-20$"),
        Core(AMQP10, "clients without an idle time-out", "^AMQP10-IDLE-06$"),
        Core(AMQP091, "heartbeats of the broker", "^AMQP091-HB-02$|^RABBITMQ-AMQP091-HB-"),
        Core(AMQP091, "silence of a client", "^AMQP091-HB-03$"),
    ),
    Area.WINDOW: (
        Core(AMQP10, "credit of a link", "^AMQP10-CREDIT-03$"),
        Core(AMQP10, "drain", "^AMQP10-CREDIT-12$"),
        Core(AMQP10, "windows of a session", "^AMQP10-WIN-02$"),
        Core(AMQP091, "prefetch", "^AMQP091-QOS-01$"),
        Core(AMQP091, "what an acknowledgement makes room for", "^AMQP091-QOS-02$"),
    ),
    Area.THRESHOLD: (Core("", "what a full broker does to producers", _VENDOR.pattern),),
    Area.PAGING: (
        Core(AMQP091, "order", "^AMQP091-PUB-04$"),
        Core("", "messages that do not fit into memory", "-PAGING-|-page-|^ACTIVEMQ-ORDER-"),
    ),
    Area.RECOVERY: (
        Core(STOMP, "acknowledgements", "^STOMP1[012]-ACK-"),
        Core(STOMP, "transactions", "^STOMP1[012]-(BEGIN|COMMIT|ABORT)-"),
        Core(AMQP10, "outcomes", "^AMQP10-OUT-"),
        Core(AMQP10, "transactions", "^AMQP10-TXN-"),
        Core(AMQP091, "acknowledgements", "^AMQP091-ACK-"),
        Core(AMQP091, "rejections", "^AMQP091-REJ-"),
        Core(AMQP091, "transactions", "^AMQP091-TX-"),
    ),
    Area.PROTOCOL: (
        Core(STOMP, "connecting", "^STOMP1[012]-CONN"),
        Core(STOMP, "SEND", "^STOMP1[012]-SEND-"),
        Core(STOMP, "SUBSCRIBE", "^STOMP1[012]-SUB"),
        Core(AMQP10, "frames", "^AMQP10-FRAME-"),
        Core(AMQP10, "links", "^AMQP10-LINK-"),
        Core(AMQP10, "transfers", "^AMQP10-XFER-"),
        Core(AMQP091, "frames", "^AMQP091-FRAME-"),
        Core(AMQP091, "exchanges", "^AMQP091-EXCH-"),
        Core(AMQP091, "queues", "^AMQP091-QUEUE-"),
    ),
}
"""What each area cannot do without, by protocol."""

_SILENT = {
    Area.WINDOW: "{} offers no window of its own, and none is known of this broker",
    Area.THRESHOLD: "no specification says what a full broker does to its producers",
    Area.PAGING: "nothing is promised of order or of messages beyond memory by {}",
}


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
    return _SILENT.get(area, "").format(" and ".join(protocols))
