"""Requests to a CORE session, and what each part of a session needs from its connection."""

from __future__ import annotations

from typing import Protocol

from brokerproof.reference_broker.kernel.context import BrokerContext


class Connection(Protocol):
    """A session's connection. ``held`` while the peer does not read."""

    conn: int
    shared: BrokerContext
    version: int
    held: bool

    @property
    def consumers(self) -> int:
        """Number of consumers of all sessions."""

    def send(self, data: bytes) -> None:
        """Queue bytes for sending."""

    def observe(self, requirement: str, detail: str) -> None:
        """Record that ``requirement`` decided a branch."""


class ResponseRequest:
    """The requested response to a packet: ``answer``, and its correlation id. ``answered`` if its
    handler sent another one."""

    __slots__ = ("answer", "answered", "correlation")

    def __init__(self) -> None:
        self.answer = self.answered = False
        self.correlation: int | None = None
