"""What a mutant is: the reference broker with one fault, which it declares.

A mutant is a small function in the module of its group. It gets the standard parts of the broker
and returns parts of which one is wrong; its docstring is the fault in one sentence, its decorator
names the requirements that the fault breaks::

    @ttl.mutant("ARTEMIS-STOMP-ttl-3")
    def modifier_forgotten(parts, reached):
        \"\"\"The TTL is the client's own interval, without the modifier.\"\"\"

The function is called once per broker, so what it closes over is the state of one broker. Where the
mutated code does something else than the original would have done it calls ``reached``: a mutant
that no case reaches proves nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.protocols.stomp.frame import Frame, Head, Headers

Value = TypeVar("Value")


class Reached:
    """Counts how often one instance of a mutant did something else than the original would have
    done."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1

    def instead(self, right: Any, wrong: Value) -> Value:
        """``wrong``, counted if it is not what the original would have answered."""
        if right != wrong:
            self.count += 1
        return wrong


class Fault(Protocol):
    """Anything that breaks requirements and says which."""

    @property
    def breaks(self) -> tuple[str, ...]: ...


REFERENCE = "reference"

Build: TypeAlias = Callable[[Parts, Reached], Parts]


@dataclass(frozen=True)
class Mutant:
    """One seeded fault. ``recreates`` is the issue of a real broker that had the same symptom on
    the wire, or empty."""

    name: str
    group: str
    fault: str
    breaks: tuple[str, ...]
    recreates: str
    build: Build
    original: str = REFERENCE
    """The shipped target, in virtual time, whose broker is mutated."""


@dataclass
class Group:
    """The mutants of one subject; they register here when their module is imported."""

    name: str
    original: str = REFERENCE
    """The shipped target whose broker is mutated; whether the controls behave is known of the usual
    one."""
    mutants: list[Mutant] = field(default_factory=list)

    def mutant(self, breaks: str, recreates: str = "") -> Callable[[Build], Build]:
        """Makes a mutant of a function. ``breaks`` has requirement ids between blanks."""

        def register(build: Build) -> Build:
            fault = " ".join((inspect.getdoc(build) or "").split())
            name = f"{self.name}.{build.__name__.replace('_', '-')}"
            self.mutants.append(
                Mutant(
                    name, self.name, fault, tuple(breaks.split()), recreates, build, self.original
                )
            )
            return build

        return register


def rewritten(frame: Frame, headers: Headers) -> Frame:
    """``frame`` with other headers; what the broker has worked out about it is not kept."""
    return Frame(Head(frame.head.command, headers, frame.head.content_length), frame.body)


def without(frame: Frame, *names: str) -> Frame:
    """``frame`` without the headers of these names."""
    return rewritten(frame, tuple(each for each in frame.head.headers if each[0] not in names))
