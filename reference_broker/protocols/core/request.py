"""Requests to a CORE session, and what each part of the session needs from the connection."""

from typing import Protocol

from brokerproof.reference_broker.kernel.context import BrokerContext


class Connection(Protocol):
    """The connection of a session. ``held`` is true while the peer does not read."""

    conn: int
    shared: BrokerContext
    version: int
    held: bool

    @property
    def consumers(self) -> int:
        """The number of consumers in all sessions."""

    def send(self, data: bytes) -> None:
        """Queue bytes for sending."""

    def observe(self, requirement: str, detail: str) -> None:
        """Record that ``requirement`` determined a branch."""


class ResponseRequest:
    """The requested response to a packet: ``answer`` and its correlation id. ``answered``: the
    packet's handler sent another response."""

    __slots__ = ("answer", "answered", "correlation")

    def __init__(self) -> None:
        self.answer = self.answered = False
        self.correlation: int | None = None
