"""Extensions of AMQP 0-9-1, which a client may use only with a broker that offers them.

A broker may refuse extensions without violating the specification. Extensions are named like the
capabilities in ``fixtures/capabilities.toml``.
"""

from collections.abc import Mapping
from typing import Any

NACK = "amqp091-nack"
CONFIRMS = "amqp091-confirms"
EXCHANGE_BINDINGS = "amqp091-exchange-bindings"
CANCEL_NOTIFY = "amqp091-cancel-notify"
CONSUMER_PREFETCH = "amqp091-consumer-prefetch"
ARGUMENTS = "amqp091-arguments"
INTERNAL_EXCHANGES = "amqp091-internal-exchanges"

ANNOUNCED: Mapping[str, str] = {
    "basic.nack": NACK,
    "publisher_confirms": CONFIRMS,
    "exchange_exchange_bindings": EXCHANGE_BINDINGS,
    "consumer_cancel_notify": CANCEL_NOTIFY,
    "per_consumer_qos": CONSUMER_PREFETCH,
}
"""Our capability for each name in the ``capabilities`` of the server-properties."""
_METHODS = {
    "basic.nack": NACK,
    "confirm.select": CONFIRMS,
    "exchange.bind": EXCHANGE_BINDINGS,
    "exchange.unbind": EXCHANGE_BINDINGS,
}
_DECLARING = ("queue.declare", "exchange.declare", "basic.consume")
"""Methods whose arguments depend on the server (1.7.2.1, 1.6.2.1, 1.8.3.3)."""


def needed(name: str, fields: Mapping[str, Any]) -> str:
    """Return the capability that a method with these fields needs; empty if it is in the
    specification."""
    if name in _METHODS:
        return _METHODS[name]
    if name == "exchange.declare" and fields.get("internal"):
        return INTERNAL_EXCHANGES
    if name == "basic.publish" and "expiration" in fields:
        return (
            # the specification gives it no meaning: a duration to some brokers, a date to others
            ARGUMENTS
        )
    return ARGUMENTS if name in _DECLARING and fields.get("arguments") else ""
