"""The areas of the mission, and the area of each requirement.

A report and a run's last lines state for each area if a broker keeps it, because "1,043 of 1,108
cases" answers no question that a broker's user has.
"""

from __future__ import annotations

import functools
import re

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
