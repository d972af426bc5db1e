"""The packets of Artemis's CORE protocol that have to do with sessions, queues, messages and flow
control.

Taken from release 2.56.0 (package core.protocol.core.impl and its wireformat). A field is a name
and a type of :mod:`brokerproof.harness.protocols.core.values`; ``message`` is a whole message,
``rest`` every byte that is left. A field with a number is there from that version of the protocol
on. What is not here (large messages, XA, replication, clusters beyond the one packet that every
client is sent) is read as a packet without fields.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.harness.protocols.versioned_fields import Fields, fields

ASYNC_RESPONSES, PRODUCERS, NEWEST = 130, 134, 136
"""Versions: since 2.7.0 answers have a correlation id, since 2.28.0 messages name their producer;
that of 2.56.0."""


@dataclass(frozen=True, slots=True)
class PacketTable:
    """One packet: its name, its number (a byte, unsigned), and its fields."""

    name: str
    code: int
    fields: Fields


_SESSION = (
    "name:string session-channel:long version:int username:string? password:string?"
    " min-large-message-size:int xa:boolean auto-commit-sends:boolean auto-commit-acks:boolean"
    " window-size:int pre-acknowledge:boolean default-address:string?"
)
_QUEUE = (
    "address:simple queue:simple filter:simple? durable:boolean temporary:boolean"
    " requires-response:boolean auto-created:boolean routing-type:byte max-consumers:int"
    " purge-on-no-consumers:boolean exclusive:boolean? last-value:boolean? last-value-key:simple?"
    " non-destructive:boolean? consumers-before-dispatch:int? delay-before-dispatch:long?"
    " group-rebalance:boolean? group-buckets:int? auto-delete:boolean? auto-delete-delay:long?"
    " auto-delete-message-count:long? group-first-key:simple? ring-size:long? enabled:boolean?"
    " group-rebalance-pause-dispatch:boolean?"
)
_QUEUE_ANSWER = (
    "exists:boolean durable:boolean temporary:boolean consumer-count:int message-count:long"
    " filter:simple? address:simple? name:simple? auto-create-queues:boolean auto-created:boolean"
    " purge-on-no-consumers:boolean routing-type:byte max-consumers:int exclusive:boolean?"
    " last-value:boolean? default-consumer-window-size:int? last-value-key:simple?"
    " non-destructive:boolean? consumers-before-dispatch:int? delay-before-dispatch:long?"
    " group-rebalance:boolean? group-buckets:int? auto-delete:boolean? auto-delete-delay:long?"
    " auto-delete-message-count:long? group-first-key:simple? ring-size:long? enabled:boolean?"
    " group-rebalance-pause-dispatch:boolean? configuration-managed:boolean?"
)

_PACKETS: dict[str, tuple[int, str]] = {
    "ping": (10, "connection-ttl:long"),
    "disconnect": (11, "node:simple?"),
    "disconnect-consumer": (12, "consumer:long"),
    "disconnect-v2": (124, "node:simple? scale-down-node:simple?"),
    "disconnect-v3": (-19, "node:simple? reason:byte rest:rest"),
    "exception": (20, f"code:int message:string? correlation:long@{ASYNC_RESPONSES}"),
    "null-response": (21, f"correlation:long@{ASYNC_RESPONSES}"),
    "packets-confirmed": (22, "command:int"),
    "create-session": (30, _SESSION),
    "create-session-v2": (-18, f"{_SESSION} client-id:string?"),
    "create-session-response": (31, "version:int"),
    "create-queue": (
        34,
        (
            "address:simple queue:simple filter:simple? durable:boolean temporary:boolean"
            " requires-response:boolean"
        ),
    ),
    "create-queue-v2": (-12, _QUEUE),
    "delete-queue": (35, "queue:simple"),
    "create-consumer": (
        40,
        (
            "consumer:long queue:simple filter:simple? browse-only:boolean"
            f" requires-response:boolean priority:int@{ASYNC_RESPONSES}"
        ),
    ),
    "acknowledge": (41, "consumer:long message:long requires-response:boolean"),
    "commit": (43, f"correlation:long@{ASYNC_RESPONSES + 1}"),
    "rollback": (44, "last-delivered:boolean"),
    "queue-query": (45, "queue:simple"),
    "queue-query-response": (46, "rest:rest"),
    "queue-query-response-v3": (-14, _QUEUE_ANSWER),
    "binding-query": (49, "address:simple"),
    "binding-query-response": (-22, "rest:rest"),
    "session-start": (67, ""),
    "session-stop": (68, ""),
    "session-close": (69, ""),
    "consumer-credits": (70, "consumer:long credits:int"),
    "send": (
        71,
        (
            f"message:message requires-response:boolean correlation:long@{ASYNC_RESPONSES}"
            f" sender:int@{PRODUCERS}"
        ),
    ),
    "close-consumer": (74, "consumer:long"),
    "receive": (75, "message:message consumer:long delivery-count:int"),
    "force-delivery": (78, "consumer:long sequence:long"),
    "request-producer-credits": (79, "credits:int address:simple"),
    "producer-credits": (80, "credits:int address:simple"),
    "acknowledge-one": (81, "consumer:long message:long requires-response:boolean"),
    "producer-credits-refused": (82, "credits:int address:simple"),
    "create-producer": (-20, "producer:int address:simple?"),
    "remove-producer": (-21, "producer:int"),
}

BY_NAME: dict[str, PacketTable] = {
    name: PacketTable(name, code & 0xFF, fields(text)) for name, (code, text) in _PACKETS.items()
}
BY_CODE: dict[int, PacketTable] = {definition.code: definition for definition in BY_NAME.values()}
