"""STOMP heartbeats in whole seconds, as in RabbitMQ (RABBITMQ-STOMP-hb-1 to -3;
deps/rabbitmq_stomp)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from brokerproof.harness.model.time import Duration, ms


@dataclass(frozen=True, slots=True)
class Rules:
    """The ``floor`` and ``step`` of an interval in milliseconds, the ``fraction`` of the interval
    after which the server writes, and the ``least`` and ``most`` intervals after which the server
    notices silence."""

    floor: int
    step: int
    fraction: int
    least: int
    most: int

    @classmethod
    def of(cls, parameters: Mapping[str, object]) -> Self:
        """Read the rules from a family's profile. Raises ``KeyError``."""
        names = (
            "heart_beat_floor_ms",
            "heart_beat_step_ms",
            "server_beat_fraction",
            "silence_intervals_min",
            "silence_intervals_max",
        )
        return cls(*(int(str(parameters[name])) for name in names))

    def rounded(self, asked: int) -> int:
        """Return the interval used for a client's value, both in milliseconds; 0 means none."""
        return max(self.floor, asked - asked % self.step) if asked else 0

    def silence(self, promised: int) -> tuple[Duration, Duration]:
        """Return the shortest and the longest silence after which the server closes the connection
        of a client that promised heartbeats at this interval."""
        return ms(self.least * self.rounded(promised)), ms(self.most * self.rounded(promised))


def agreed(rules: Rules, promised: int, requested: int) -> str:
    """Return the heart-beat header of CONNECTED: the server's interval, then the client's."""
    return f"{rules.rounded(requested)},{rules.rounded(promised)}"
