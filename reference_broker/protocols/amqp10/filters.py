"""Names that selectors see of an AMQP message, and the filter in which a source names one.

====================================  =================================================================================
name                                  value
====================================  =================================================================================
application properties                as they are: strings, numbers, truth values; anything else is NULL
AMQAddress, AMQPriority, AMQDurable   as for STOMP (``kernel/selector_properties.py``), from the header section
AMQExpiration                         properties.absolute-expiry-time, else arrival and ttl; milliseconds since 1970, or 0
AMQTimestamp                          properties.creation-time, else the arrival; milliseconds since 1970
AMQUserID                             properties.message-id, written out
AMQGroupID, JMSXGroupID               properties.group-id
AMQSize                               bytes of the bare message
JMSType, JMSCorrelationID             properties.subject and correlation-id
JMSPriority, JMSTimestamp, …          other names for AMQPriority, AMQTimestamp, AMQExpiration, AMQUserID
====================================  =================================================================================

The filter is that of the Apache registry, ``apache.org:selector-filter:string``, under any key of
the filter set. Other filters are not supported.
"""  # noqa: E501

from typing import Any

from brokerproof.harness.model.time import NS_PER_MS
from brokerproof.reference_broker.kernel.selector_properties import PRIORITY
from brokerproof.reference_broker.protocols.amqp10 import refusal
from brokerproof.reference_broker.protocols.amqp10.messaging import Properties
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.stomp_conversion import (
    Source,
    identity,
    sections_of,
)
from brokerproof.reference_broker.protocols.amqp10.types import Described, Timestamp
from brokerproof.reference_broker.selector.selector import Selector, SelectorError, parse
from brokerproof.reference_broker.selector.values import Value

FILTERS = ("apache.org:selector-filter:string", 0x0000_468C_0000_0004)
"""The descriptor of the filter, both symbolic and numeric."""

_JMS = {
    "JMSPriority": "AMQPriority",
    "JMSTimestamp": "AMQTimestamp",
    "JMSExpiration": "AMQExpiration",
    "JMSMessageID": "AMQUserID",
    "JMSXGroupID": "AMQGroupID",
}


def selector_of(filters: dict[Any, Any] | None) -> Selector | None:
    """Return the selector in a source's filter set; None if there is none. Raises :class:`Refusal`
    for any other filter."""
    selector = None
    for key, value in (filters or {}).items():
        if not isinstance(value, Described) or value.descriptor not in FILTERS:
            raise Refusal(
                refusal.NOT_SUPPORTED,
                f"this broker supports only selector filters, not {refusal.shown(str(key))}",
            )
        if not isinstance(value.value, str) or selector is not None:
            raise Refusal(
                refusal.BAD_FILTER, "a source can have one selector, which must be a string"
            )
        try:
            selector = parse(value.value)
        except SelectorError as problem:
            raise Refusal(
                refusal.BAD_FILTER, f"selector {refusal.shown(value.value)}, {problem}"
            ) from None
    return selector


def names(message: Source) -> dict[str, Value]:
    """Return every name of ``message`` that a selector can read. Never raises an exception."""
    properties, application = sections_of(message.described)
    if properties is None:
        properties = Properties()
    values = {key: _value(value) for key, value in application if isinstance(key, str)}
    arrived = message.arrived // NS_PER_MS
    expires = properties.absolute_expiry_time
    if expires is None and message.ttl is not None:
        expires = arrived + message.ttl
    values |= {
        "AMQAddress": message.route.address,
        "AMQPriority": message.prefix[2] if message.prefix[1] == 0x50 else PRIORITY,
        "AMQDurable": "DURABLE" if message.prefix[0] == 0x41 else "NON_DURABLE",
        "AMQExpiration": expires or 0,
        "AMQTimestamp": arrived if properties.creation_time is None else properties.creation_time,
        "AMQUserID": _text(properties.message_id),
        "AMQGroupID": properties.group_id,
        "AMQSize": message.bare_size,
        "JMSType": properties.subject,
        "JMSCorrelationID": _text(properties.correlation_id),
    }
    return values | {name: values[other] for name, other in _JMS.items()}


def _text(value: Any) -> str | None:
    return None if value is None else identity(value)


def _value(value: Any) -> Value:
    if isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int) and not isinstance(value, Timestamp):
        return int(value)
    return float(value) if isinstance(value, float) else None
