"""The methods, properties and reply codes of AMQP 0-9-1 and of RabbitMQ's extensions to it, as
data.

Compared with pamqp's tables by a test; nothing of this is shared with the broker. Types are the
specification's: bit, byte, short, long, longlong, shortstr, longstr, timestamp, table. Consecutive
bits share bytes (4.2.5.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Fields: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MethodTable:
    """One method: its name, the numbers of its class and of itself, its fields, and whether content
    follows."""

    name: str
    class_id: int
    method_id: int
    fields: Fields
    content: bool = False


def _fields(text: str) -> Fields:
    return tuple((name, kind) for name, _, kind in (word.partition(":") for word in text.split()))


_CLOSE = "reply-code:short reply-text:shortstr class-id:short method-id:short"
_TUNE = "channel-max:short frame-max:long heartbeat:short"
_BIND = (  # E2E
    "reserved-1:short destination:shortstr source:shortstr routing-key:shortstr no-wait:bit"
    " arguments:table"
)
_METHODS: tuple[tuple[int, int, str, str], ...] = (
    *(
        (
            *(10, 10, "connection.start"),
            (
                "version-major:octet version-minor:octet server-properties:table mechanisms:longstr"
                " locales:longstr"
            ),
        ),
        (
            *(10, 11, "connection.start-ok"),
            "client-properties:table mechanism:shortstr response:longstr locale:shortstr",
        ),
        (10, 20, "connection.secure", "challenge:longstr"),
        (10, 21, "connection.secure-ok", "response:longstr"),
        (10, 30, "connection.tune", _TUNE),
        (10, 31, "connection.tune-ok", _TUNE),
        (10, 40, "connection.open", "virtual-host:shortstr reserved-1:shortstr reserved-2:bit"),
        (10, 41, "connection.open-ok", "reserved-1:shortstr"),
        (10, 50, "connection.close", _CLOSE),
        (10, 51, "connection.close-ok", ""),
        (10, 60, "connection.blocked", "reason:shortstr"),
        (10, 61, "connection.unblocked", ""),
        (10, 70, "connection.update-secret", "new-secret:longstr reason:shortstr"),
        (10, 71, "connection.update-secret-ok", ""),
    ),
    *(
        (20, 10, "channel.open", "reserved-1:shortstr"),
        (20, 11, "channel.open-ok", "reserved-1:longstr"),
        (20, 20, "channel.flow", "active:bit"),
        (20, 21, "channel.flow-ok", "active:bit"),
        (20, 40, "channel.close", _CLOSE),
        (20, 41, "channel.close-ok", ""),
    ),
    *(
        (
            *(40, 10, "exchange.declare"),
            (
                "reserved-1:short exchange:shortstr type:shortstr passive:bit durable:bit"
                " auto-delete:bit internal:bit no-wait:bit arguments:table"
            ),
        ),
        (40, 11, "exchange.declare-ok", ""),
        (40, 20, "exchange.delete", "reserved-1:short exchange:shortstr if-unused:bit no-wait:bit"),
        (40, 21, "exchange.delete-ok", ""),
        (40, 30, "exchange.bind", _BIND),
        (40, 31, "exchange.bind-ok", ""),
        (40, 40, "exchange.unbind", _BIND),
        (40, 51, "exchange.unbind-ok", ""),
    ),
    *(
        (
            *(50, 10, "queue.declare"),
            (
                "reserved-1:short queue:shortstr passive:bit durable:bit exclusive:bit"
                " auto-delete:bit no-wait:bit arguments:table"
            ),
        ),
        (50, 11, "queue.declare-ok", "queue:shortstr message-count:long consumer-count:long"),
        (
            *(50, 20, "queue.bind"),
            (
                "reserved-1:short queue:shortstr exchange:shortstr routing-key:shortstr no-wait:bit"
                " arguments:table"
            ),
        ),
        (50, 21, "queue.bind-ok", ""),
        (50, 30, "queue.purge", "reserved-1:short queue:shortstr no-wait:bit"),
        (50, 31, "queue.purge-ok", "message-count:long"),
        (
            50,
            40,
            "queue.delete",
            "reserved-1:short queue:shortstr if-unused:bit if-empty:bit no-wait:bit",
        ),
        (50, 41, "queue.delete-ok", "message-count:long"),
        (
            *(50, 50, "queue.unbind"),
            (
                "reserved-1:short queue:shortstr exchange:shortstr routing-key:shortstr"
                " arguments:table"
            ),
        ),
        (50, 51, "queue.unbind-ok", ""),
    ),
    *(
        (60, 10, "basic.qos", "prefetch-size:long prefetch-count:short global:bit"),
        (60, 11, "basic.qos-ok", ""),
        (
            *(60, 20, "basic.consume"),
            (
                "reserved-1:short queue:shortstr consumer-tag:shortstr no-local:bit no-ack:bit"
                " exclusive:bit no-wait:bit arguments:table"
            ),
        ),
        (60, 21, "basic.consume-ok", "consumer-tag:shortstr"),
        (60, 30, "basic.cancel", "consumer-tag:shortstr no-wait:bit"),
        (60, 31, "basic.cancel-ok", "consumer-tag:shortstr"),
        (
            *(60, 40, "basic.publish"),
            "reserved-1:short exchange:shortstr routing-key:shortstr mandatory:bit immediate:bit",
        ),
        (
            60,
            50,
            "basic.return",
            "reply-code:short reply-text:shortstr exchange:shortstr routing-key:shortstr",
        ),
        (
            *(60, 60, "basic.deliver"),
            (
                "consumer-tag:shortstr delivery-tag:longlong redelivered:bit exchange:shortstr"
                " routing-key:shortstr"
            ),
        ),
        (60, 70, "basic.get", "reserved-1:short queue:shortstr no-ack:bit"),
        (
            *(60, 71, "basic.get-ok"),
            (
                "delivery-tag:longlong redelivered:bit exchange:shortstr routing-key:shortstr"
                " message-count:long"
            ),
        ),
        (60, 72, "basic.get-empty", "reserved-1:shortstr"),
        (60, 80, "basic.ack", "delivery-tag:longlong multiple:bit"),
        (60, 90, "basic.reject", "delivery-tag:longlong requeue:bit"),
        (60, 100, "basic.recover-async", "requeue:bit"),
        (60, 110, "basic.recover", "requeue:bit"),
        (60, 111, "basic.recover-ok", ""),
        (60, 120, "basic.nack", "delivery-tag:longlong multiple:bit requeue:bit"),
    ),
    *(
        (85, 10, "confirm.select", "no-wait:bit"),
        (85, 11, "confirm.select-ok", ""),
        (90, 10, "tx.select", ""),
        (90, 11, "tx.select-ok", ""),
        (90, 20, "tx.commit", ""),
        (90, 21, "tx.commit-ok", ""),
        (90, 30, "tx.rollback", ""),
        (90, 31, "tx.rollback-ok", ""),
    ),
)
_WITH_CONTENT = ("basic.publish", "basic.return", "basic.deliver", "basic.get-ok")

BY_NAME: dict[str, MethodTable] = {
    name: MethodTable(name, class_id, method_id, _fields(fields), name in _WITH_CONTENT)
    for class_id, method_id, name, fields in _METHODS
}
BY_NUMBERS: dict[tuple[int, int], MethodTable] = {
    (method.class_id, method.method_id): method for method in BY_NAME.values()
}

BASIC = 60
PROPERTIES: Fields = _fields(
    "content-type:shortstr content-encoding:shortstr headers:table delivery-mode:octet"
    " priority:octet correlation-id:shortstr reply-to:shortstr expiration:shortstr"
    " message-id:shortstr timestamp:timestamp type:shortstr user-id:shortstr app-id:shortstr"
    " cluster-id:shortstr"
)
"""Of class basic, in the order of their flags, the first at bit 15 (4.2.6.1)."""
