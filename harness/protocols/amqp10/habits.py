"""Habits of an AMQP 1.0 client: what it chooses where a case leaves the choice open."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerproof.harness.protocols.amqp10.codec import SENDER


@dataclass(frozen=True)
class Habits:
    """Choices that no rule depends on: the ``header`` of messages, the snd-settle-mode of links
    that send and receive, the lowest handle and the first delivery-count, and the number of frames
    in which a message is sent."""

    header: Mapping[str, Any] = field(default_factory=dict)
    sends: int | None = None
    receives: int | None = None
    first_handle: int = 0
    first_count: int = 0
    pieces: int = 1

    def link(self, role: bool) -> dict[str, Any]:
        """Return the fields of an attach that the case does not give."""
        if role is SENDER:
            return {"snd-settle-mode": self.sends, "initial-delivery-count": self.first_count}
        return {"snd-settle-mode": self.receives}

    def sections(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the sections of a message, of which the case gives some."""
        own = dict(given or {})
        header = {**self.header, **(own.get("header") or {})}
        return own | {"header": header} if header else own

    def cut(self, payload: bytes, most: int) -> list[bytes]:
        """Return the payloads of a message's frames, each of at most ``most`` bytes."""
        size = min(most, -(-len(payload) // self.pieces)) or 1
        return [payload[at : at + size] for at in range(0, len(payload), size)] or [b""]
