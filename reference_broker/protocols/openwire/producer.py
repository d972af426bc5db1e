"""Producers, and their windows in octets (ACTIVEMQ-PFC).

A client with a window W sends without waiting for answers until W octets are on their way, and goes
on as the broker tells it with ProducerAck how many of them it has taken. What a message counts is
what it is charged: 1024 and the octets of its content and of its properties. The client alone keeps
to its window; the broker never looks whether it does. A message that asks for a response has that,
and no ProducerAck.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerproof.reference_broker.kernel.java_fields import int32
from brokerproof.reference_broker.protocols.openwire import codes
from brokerproof.reference_broker.protocols.openwire.encoding import NO, command
from brokerproof.reference_broker.protocols.openwire.structures import (
    Destination,
    ProducerId,
    nested,
)


class Producer:
    """One producer. ``destination`` None: each message names its own; ``window`` 0: there is
    none."""

    def __init__(
        self,
        id: ProducerId,
        destination: Destination | None,
        window: int,
        send: Callable[[bytes], None],
    ) -> None:
        self.id = id
        self.destination = destination
        self.window = window
        self._send = send

    @property
    def windowed(self) -> bool:
        """Whether it is told what was taken."""
        return self.window > 0

    def taken(self, octets: int, *, answered: bool) -> None:
        """A message of so many octets was taken; ``answered``: it asked for a response."""
        if self.windowed and not answered:
            self.acknowledge(octets)

    def acknowledge(self, octets: int) -> None:
        """Tells it so."""
        self._send(
            command(codes.PRODUCER_ACK, int32(0), NO, nested(self.id, codes.NEWEST), int32(octets))
        )
