"""Producers, and their windows in bytes (ACTIVEMQ-PFC).

A client with a window W sends without waiting for answers until W bytes are pending, and continues
as the broker acknowledges these with ProducerAck. The size of a message is 1024 plus the bytes of
its content and properties. Only the client enforces the window. A message that requests a response
gets the response but no ProducerAck.
"""

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
    """One producer. If ``destination`` is None, each message names its own; ``window`` 0: none."""

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
        return self.window > 0

    def taken(self, size: int, *, answered: bool) -> None:
        """Acknowledge a message of ``size`` bytes unless it is ``answered`` by a response."""
        if self.windowed and not answered:
            self.acknowledge(size)

    def acknowledge(self, size: int) -> None:
        self._send(
            command(codes.PRODUCER_ACK, int32(0), NO, nested(self.id, codes.NEWEST), int32(size))
        )
