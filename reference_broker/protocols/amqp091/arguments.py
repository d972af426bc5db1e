"""RabbitMQ's x- arguments of queue.declare.

Known arguments are checked and must be equal when a queue is declared again; others are stored and
ignored. Arguments for RabbitMQ features that are missing here (priorities, streams) are refused
with an explanation.
"""

from collections.abc import Callable, Mapping
from typing import Any

from brokerproof.harness.model.time import ms
from brokerproof.reference_broker.families.rabbitmq.limited_queue import (
    DROP_HEAD,
    OVERFLOWS,
    Limits,
)
from brokerproof.reference_broker.protocols.amqp091.errors import (
    PRECONDITION_FAILED,
    Refusal,
    shown,
)

EXPIRES, TTL, LENGTH, SIZE, OVERFLOW = (
    "x-expires",
    "x-message-ttl",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
)
DLX, DLX_KEY = "x-dead-letter-exchange", "x-dead-letter-routing-key"
TYPE, RETURNS = "x-queue-type", "x-delivery-limit"
LONGEST_MS = 0xFFFFFFFF
"""The largest time, in milliseconds."""
_ABSENT = ("x-max-priority", "x-single-active-consumer")


def _whole(least: int, most: int) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if not isinstance(value, int) or isinstance(value, bool):
            return "is not an integer"
        return None if least <= value <= most else f"is not {least} to {most}"

    return check


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) else "is not a long string"


def _one_of(*words: str) -> Callable[[Any], str | None]:
    return lambda value: None if value in words else f"is not one of {', '.join(words)}"


_CHECKS: dict[str, Callable[[Any], str | None]] = {
    EXPIRES: _whole(1, LONGEST_MS),
    TTL: _whole(0, LONGEST_MS),
    LENGTH: _whole(0, 2**63 - 1),
    SIZE: _whole(0, 2**63 - 1),
    OVERFLOW: _one_of(*OVERFLOWS),
    DLX: _text,
    DLX_KEY: _text,
    TYPE: _one_of("classic", "quorum"),
    RETURNS: _whole(-1, 2**63 - 1),
    "x-queue-mode": _one_of("default", "lazy"),
    "x-queue-version": _whole(1, 2),
}


def check(queue: str, arguments: Mapping[str, Any]) -> None:
    """Raise :class:`Refusal` for an argument that is not allowed."""
    for name, value in arguments.items():
        problem = _CHECKS[name](value) if name in _CHECKS else None
        if name in _ABSENT:
            problem = "is not implemented here"
        if name == DLX_KEY and DLX not in arguments:
            problem = f"has no meaning without {DLX}"
        if problem is not None:
            raise Refusal(
                PRECONDITION_FAILED,
                f"invalid arg {shown(name)} for queue {shown(queue)}: {problem}",
            )


def limits(arguments: Mapping[str, Any]) -> Limits:
    ttl, returns = arguments.get(TTL), arguments.get(RETURNS, -1)
    return Limits(
        length=arguments.get(LENGTH),
        size=arguments.get(SIZE),
        overflow=arguments.get(OVERFLOW, DROP_HEAD),
        ttl=None if ttl is None else ms(ttl),
        returns=returns if arguments.get(TYPE) == "quorum" and returns >= 0 else None,
    )


def differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Return the first known argument that differs, or None if all are equal."""
    return next(
        (name for name in _CHECKS if name != TYPE and before.get(name) != now.get(name)), None
    )
