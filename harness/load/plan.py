"""The plan of a load (producers, consumers, sizes, acknowledgements, faults), and the parser of its
options."""

import dataclasses
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S, Duration
from brokerproof.harness.trace import stamp

STAMP_BYTES = stamp.LENGTH + 20
"""Every body begins with its stamp and its sending instant: 19 digits and a semicolon."""
MOST_BYTES = 64 * 1024 * 1024
"""The longest body."""

_SIZE = re.compile(r"([0-9]+)([kKmMgG]?)")
_FACTOR = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_UNIT = {"ms": NS_PER_MS, "s": NS_PER_S, "m": 60 * NS_PER_S, "h": 3600 * NS_PER_S}
FAULTS = ("cut", "stall", "restart")


class BadPlan(ValueError):
    """An option of a load is unusable. The message says what is wrong and what is expected."""


def duration(text: str) -> Duration:
    """Return a duration such as ``500ms``, ``2s``, ``1.5m`` or ``1h`` in nanoseconds. Raises
    :class:`BadPlan`."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise BadPlan(f"{text!r} is not a time; write 500ms, 2s, 1.5m or 1h")
    return round(float(match[1]) * _UNIT[match[2]])


@dataclass(frozen=True, slots=True)
class Sizes:
    """Body sizes in bytes, uniformly distributed from ``low`` to ``high`` inclusive."""

    low: int
    high: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Read sizes such as ``512``, ``1k`` or ``100..10k``. Raises :class:`BadPlan`."""
        low, dots, high = text.partition("..")
        sizes = cls(byte_count(low, text), byte_count(high if dots else low, text))
        if not STAMP_BYTES <= sizes.low <= sizes.high <= MOST_BYTES:
            raise BadPlan(
                f"a size of {text} is impossible; write one from {STAMP_BYTES} (the stamp that"
                f" every body begins with) to {MOST_BYTES} bytes, or LOW..HIGH"
            )
        return sizes

    def draw(self, dice: random.Random) -> int:
        return self.low if self.low == self.high else dice.randint(self.low, self.high)


KIB = Sizes(1024, 1024)


def byte_count(text: str, whole: str = "") -> int:
    """Read a size such as ``512``, ``1k``, ``8m`` or ``2g``; ``whole`` is the user's whole text.
    Raises :class:`BadPlan`."""
    match = _SIZE.fullmatch(text)
    if match is None:
        example = "512, 1k, or 100..10k" if whole else "512, 1k, 8m or 2g"
        raise BadPlan(f"{whole or text!r} is not a size; write {example}")
    return int(match[1]) * _FACTOR[match[2].lower()]


@dataclass(frozen=True, slots=True)
class Fault:
    """A periodic fault: a connection is ``cut``, a consumer does not read for ``lasts``
    (``stall``), or the broker restarts (``restart``)."""

    kind: str
    every: Duration
    lasts: Duration = 0

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a fault such as ``cut:5s``, ``stall:2s/500ms`` or ``restart:30s``. Raises
        :class:`BadPlan`."""
        kind, _, times = text.partition(":")
        every, _, lasts = times.partition("/")
        if kind not in FAULTS or (kind == "stall") != bool(lasts):
            raise BadPlan(
                f"{text!r} is not a fault; write cut:EVERY, stall:EVERY/FOR or restart:EVERY, such"
                " as cut:5s"
            )
        schedule = cls(kind, duration(every), duration(lasts) if lasts else 0)
        if schedule.every < 10 * NS_PER_MS:
            raise BadPlan(f"{text!r} is too frequent; leave at least 10ms between faults")
        return schedule


Headers: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A queue: its name on the wire, and the headers or capabilities that make this broker family
    treat it as a queue.

    ``send`` and ``subscribe`` are STOMP headers, ``capabilities`` those of an AMQP terminus."""

    name: str
    send: Headers = ()
    subscribe: Headers = ()
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer for ``place`` (an index of :attr:`Plan.places`) on connection ``line``, with
    ``messages`` in total (0: until stopped)."""

    number: int
    place: int
    line: int
    messages: int = 0


@dataclass(frozen=True, slots=True)
class Consumer:
    number: int
    place: int
    line: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One load, or one driver's part of it.

    ``protocol`` is one of :data:`brokerproof.harness.load.protocols.PROTOCOLS`. ``interval`` is the
    time between two messages of a producer (0: as fast as flow control permits). ``ack`` is
    ``auto``, ``client`` (cumulative) or ``client-individual``. ``window`` is the window that a
    consumer requests, in the protocol's unit (bytes, messages, credits; 0: none). ``in_flight`` is
    the most unconfirmed messages per producer. With ``confirmed``, SEND frames request receipts, or
    transfers are unsettled."""

    protocol: str
    acceptor: str
    host: str
    login: str
    passcode: str = field(repr=False)
    places: tuple[Place, ...]
    producers: tuple[Producer, ...]
    consumers: tuple[Consumer, ...]
    lines: int
    sizes: Sizes = KIB
    interval: Duration = 0
    ack: str = "client-individual"
    window: int = 0
    window_header: str = ""
    in_flight: int = 200
    confirmed: bool = True
    heart_beat: Duration = 30 * NS_PER_S
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    sasl: str = "ANONYMOUS"
    """The mechanism of AMQP 1.0 clients, or ``codec.NO_SASL``."""

    def data(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        values = dict(data)
        values["places"] = tuple(
            Place(
                entry["name"],
                _pairs(entry["send"]),
                _pairs(entry["subscribe"]),
                tuple(entry["capabilities"]),
            )
            for entry in data["places"]
        )
        values["producers"] = tuple(Producer(**entry) for entry in data["producers"])
        values["consumers"] = tuple(Consumer(**entry) for entry in data["consumers"])
        values["faults"] = tuple(Fault(**entry) for entry in data["faults"])
        values["sizes"] = Sizes(**data["sizes"])
        return cls(**values)

    def parts(self, drivers: int) -> list[Self]:
        """Return the plan divided among drivers by connection, omitting drivers without a
        connection."""
        parts = []
        for number in range(min(drivers, self.lines)):
            lines = range(number, self.lines, drivers)
            producers = tuple(producer for producer in self.producers if producer.line in lines)
            consumers = tuple(consumer for consumer in self.consumers if consumer.line in lines)
            parts.append(
                dataclasses.replace(
                    self, producers=producers, consumers=consumers, seed=self.seed + number
                )
            )
        return parts


def roles(
    producers: int, consumers: int, queues: int, lines: int, messages: int = 0
) -> tuple[tuple[Producer, ...], tuple[Consumer, ...]]:
    """Assign the roles to queues and connections in turn, and divide ``messages`` evenly."""
    return (
        tuple(
            Producer(number, number % queues, number % lines, _share(messages, producers, number))
            for number in range(producers)
        ),
        tuple(
            Consumer(number, number % queues, (producers + number) % lines)
            for number in range(consumers)
        ),
    )


def _share(messages: int, producers: int, number: int) -> int:
    return messages // producers + (number < messages % producers)


def _pairs(given: Sequence[Sequence[str]]) -> Headers:
    return tuple((str(name), str(value)) for name, value in given)
