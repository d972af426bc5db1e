"""The names available to selectors in addition to headers (ARTEMIS-STOMP-selector-1).

===============  ======================================================================================
name             value
===============  ======================================================================================
AMQAddress       the address, without the acceptor's prefix
AMQPriority      header ``priority``, a number from 0 to 9; 4 without one
AMQDurable       ``DURABLE`` if header ``persistent`` is ``true``, else ``NON_DURABLE``
AMQExpiration    header ``expires``, milliseconds since 1970; 0 without one
AMQGroupID       header ``JMSXGroupID``
AMQTimestamp     when the message arrived, milliseconds since 1970
AMQSize          bytes: the body, and the names and values of the headers
===============  ======================================================================================

Other names are headers with string values; the first of repeated headers counts
(STOMP12-REPEAT-02). ``AMQUserID`` is NULL, because STOMP has no equivalent."""  # noqa: E501

from brokerproof.reference_broker.selector.values import Value, number

SIZE, TIMESTAMP = "AMQSize", "AMQTimestamp"
PRIORITY = 4
"""The priority of a message that does not set one."""

Headers = tuple[tuple[str, str], ...]


def of_headers(address: str, headers: Headers) -> dict[str, Value]:
    """Return the properties that all messages with these headers share: all but AMQSize and
    AMQTimestamp."""
    properties: dict[str, Value] = dict(reversed(headers))
    priority, expires = (_whole(properties.get(name)) for name in ("priority", "expires"))
    return {
        **properties,
        "AMQAddress": address,
        "AMQPriority": priority if priority is not None and 0 <= priority <= 9 else PRIORITY,
        "AMQDurable": "DURABLE" if properties.get("persistent") == "true" else "NON_DURABLE",
        "AMQExpiration": expires or 0,
        "AMQGroupID": properties.get("JMSXGroupID"),
    }


def expires(headers: Headers) -> int:
    """Return the first header ``expires``; 0 if it is absent or not an integer."""
    values = (value for name, value in headers if name == "expires")
    return _whole(next(values, None)) or 0


def size(headers: Headers) -> int:
    """Return the bytes in the names and values of ``headers``."""
    return sum(len(name.encode()) + len(value.encode()) for name, value in headers)


def _whole(value: Value) -> int | None:
    parsed = number(value) if isinstance(value, str) else None
    return parsed if isinstance(parsed, int) else None
