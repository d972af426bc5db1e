"""Limits on the bytes, frames, time and memory that judging a real-time target may use."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for a connection, a case and a run. Each example of a property counts as a separate
    case.

    The largest conformance case in virtual time receives 2,100 frames and 26 MB. The case that
    floods RabbitMQ with publishes receives over 20,000 confirms."""

    connection_bytes: int = 64 * _MIB
    """Bytes received on one connection."""
    connection_frames: int = 100_000
    """Frames, heartbeats and unreadable pieces received on one connection."""
    connection_heartbeats: int = 5_000
    """Heartbeats (ends of line or empty frames) received on one connection. No case requests this
    many: one that requests a heartbeat each millisecond listens for less than five seconds. A
    broker that sends heartbeats without a pause takes processor time from concurrent cases, which
    then measure the host instead of the broker. Measured on Artemis, ActiveMQ and RabbitMQ: no
    other conformance case receives more than 310 over all its examples."""
    case_bytes: int = 64 * _MIB
    case_frames: int = 120_000
    case_seconds: int = 300
    probe_seconds: int = 6
    """How long a plain message may take to pass. A message that passes shows that a target serves
    other clients."""
    run_seconds: int = 4 * 60 * 60
    """The wall time to judge one target."""
    parallel_bytes: int = 64 * _MIB
    """Bytes received by all running cases together. Beyond that, each case that received more than
    its share ends."""
    parallel_frames: int = 150_000
    run_memory_bytes: int = 2048 * _MIB
    """Resident memory of all processes that judge one target."""

    def share_of(self, processes: int) -> Self:
        """Return the limits for each of several processes that judge one target. They share the
        memory equally. The limits on bytes and frames are the same, since reading takes time only
        in the process that reads."""
        return dataclasses.replace(
            self, run_memory_bytes=max(1, self.run_memory_bytes // processes)
        )


NAMES = tuple(field.name for field in dataclasses.fields(Limits))


def changed(limits: Limits, values: Mapping[str, object]) -> Limits:
    """Return ``limits`` with the given values replaced. Raises ``ValueError`` with one sentence for
    an unknown name or a value that is not a positive integer."""
    for name, value in values.items():
        if name not in NAMES:
            raise ValueError(f"there is no limit {name!r}; the limits are {', '.join(NAMES)}")
        if type(value) is not int or value < 1:
            raise ValueError(f"the limit {name} is {value!r}; it should be a positive integer")
    return dataclasses.replace(limits, **values)  # type: ignore[arg-type]


def parse(words: tuple[str, ...]) -> dict[str, int]:
    """Parse limits written as ``NAME=NUMBER``. Raises ``ValueError`` with one sentence."""
    values: dict[str, int] = {}
    for word in words:
        name, _, number = word.partition("=")
        if not (number.isascii() and number.isdecimal() and len(number) < 19):
            raise ValueError(f"{word!r} should be NAME=NUMBER, with NAME one of {', '.join(NAMES)}")
        values[name] = int(number)
    changed(Limits(), values)
    return values
