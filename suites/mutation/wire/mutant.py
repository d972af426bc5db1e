"""Wire mutants: rules that rewrite the bytes on the wire, and the requirements that this breaks.

A rule is a class that derives from :class:`Tampering`; its docstring is the fault in one sentence,
its decorator names the requirements::

    @wire_mutant("stomp.receipts-are-lost", "STOMP12-RCPT-01")
    class ReceiptsAreLost(Tampering):
        \"\"\"No RECEIPT ever arrives.\"\"\"

One instance serves one connection. It calls ``reached`` wherever something else is passed on than
came.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from brokerproof.suites.mutation.mutant import Reached
from brokerproof.suites.mutation.wire.stream_splitter import AmqpUnit, StompUnit, Unit
from brokerproof.suites.mutation.wire.tampering import Out, Rule

T = TypeVar("T", bound="type[Tampering]")


class Tampering(Rule):
    """A rule that may draw and that tells when it was reached."""

    def __init__(self, reached: Reached, dice: random.Random) -> None:
        self.reached, self.dice = reached, dice

    def instead(self, unit: Unit, *outs: Out) -> Iterable[Out]:
        """``outs`` in place of ``unit``, counted."""
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
    """Registers a rule. ``breaks`` has requirement ids between blanks."""

    def register(rule: T) -> T:
        fault = " ".join((inspect.getdoc(rule) or "").split())
        WIRE_MUTANTS[name] = WireMutant(name, fault, tuple(breaks.split()), rule)
        return rule

    return register


def stomp(unit: Unit, command: str) -> StompUnit | None:
    """``unit`` if it is a STOMP frame with that command."""
    return unit if isinstance(unit, StompUnit) and unit.command == command else None


def amqp(unit: Unit, performative: str) -> AmqpUnit | None:
    """``unit`` if it is an AMQP frame with that performative."""
    return unit if isinstance(unit, AmqpUnit) and unit.name == performative else None
