"""Wire mutants: rules that rewrite the bytes on the wire, and the requirements that they violate.

A rule is a class that derives from :class:`Tampering`. Its docstring states the fault in one
sentence, and its decorator names the requirements::

    @wire_mutant("stomp.receipts-are-lost", "STOMP12-RCPT-01")
    class ReceiptsAreLost(Tampering):
        \"\"\"No RECEIPT ever arrives.\"\"\"

One instance serves one connection. The instance calls ``reached`` whenever it changes the traffic.
"""

import inspect
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from brokerproof.suites.mutation.mutant import Reached
from brokerproof.suites.mutation.wire.stream_splitter import AmqpUnit, StompUnit, Unit
from brokerproof.suites.mutation.wire.tampering import Out, Rule

T = TypeVar("T", bound=Callable[..., Any])


class Tampering(Rule):
    """A rule that may draw values, and that reports when it was reached."""

    def __init__(self, reached: Reached, dice: random.Random) -> None:
        self.reached, self.dice = reached, dice

    def instead(self, unit: Unit, *outs: Out) -> Iterable[Out]:
        """Replace ``unit`` by ``outs`` and record that the rule was reached."""
        self.reached()
        return outs


@dataclass(frozen=True)
class WireMutant:
    """One fault on the wire."""

    name: str
    fault: str
    breaks: tuple[str, ...]
    build: Callable[[Reached, random.Random], Tampering]


WIRE_MUTANTS: dict[str, WireMutant] = {}


def wire_mutant(name: str, breaks: str) -> Callable[[T], T]:
    """Register a rule. ``breaks`` contains requirement ids separated by blanks."""

    def register(rule: T) -> T:
        fault = " ".join((inspect.getdoc(rule) or "").split())
        WIRE_MUTANTS[name] = WireMutant(name, fault, tuple(breaks.split()), rule)
        return rule

    return register


def from_broker(kind: str, breaks: str) -> Callable[[T], T]:
    """Register a function for each frame of ``kind``, a command or a performative, that the broker
    sends. The function returns the headers or fields to change, or a replacement; None leaves the
    frame unchanged."""
    return _frames("from_broker", kind, breaks)


def to_broker(kind: str, breaks: str) -> Callable[[T], T]:
    """Like :func:`from_broker`, but for frames of the client."""
    return _frames("to_broker", kind, breaks)


def _frames(direction: str, kind: str, breaks: str) -> Callable[[T], T]:
    def register(change: T) -> T:
        def passed(self: Tampering, unit: Any) -> Iterable[Out]:
            outs = change(unit) if stomp(unit, kind) or amqp(unit, kind) else None
            if isinstance(outs, Mapping):
                altered = unit.rewritten(change=outs)
                outs = None if altered == unit.rewritten(change={}) else (altered,)
            return (unit.raw,) if outs is None else self.instead(unit, *outs)

        protocol = "stomp" if kind.isupper() else "amqp"
        name = f"{protocol}.{change.__name__.replace('_', '-')}"
        rule = type(name, (Tampering,), {"__doc__": change.__doc__, direction: passed})
        wire_mutant(name, breaks)(rule)
        return change

    return register


def stomp(unit: Unit, command: str) -> StompUnit | None:
    """Return ``unit`` if it is a STOMP frame with that command."""
    return unit if isinstance(unit, StompUnit) and unit.command == command else None


def amqp(unit: Unit, performative: str) -> AmqpUnit | None:
    """Return ``unit`` if it is an AMQP frame with that performative."""
    return unit if isinstance(unit, AmqpUnit) and unit.name == performative else None
