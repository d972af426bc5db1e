"""A client on trial, as its target hands it to a case."""

from collections.abc import Callable
from dataclasses import dataclass

from brokerproof.harness.worlds.world import Channel


@dataclass(frozen=True, slots=True)
class BegunTrial:
    """A driver that was started. The driver's library must connect to ``host`` and ``port``."""

    driver: Channel
    """The channel of the driver's line protocol."""
    host: str
    port: int
    loaded: Callable[[], None]
    """To be called once the driver has reported that it is ready. From then on the driver's process
    is watched."""
