"""Enumerations that traces, results, cases and brokers share."""

from __future__ import annotations

import enum


class StrEnum(enum.StrEnum):
    """An enumeration whose members are written to traces and results by their name."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[str]) -> str:
        return name


class AckMode(StrEnum):
    AUTO = enum.auto()
    CLIENT = enum.auto()
    """Cumulative: a settlement covers every earlier delivery of the same subscription."""
    CLIENT_INDIVIDUAL = enum.auto()


class Outcome(StrEnum):
    ACCEPTED = enum.auto()
    REJECTED = enum.auto()
    RELEASED = enum.auto()
    MODIFIED = enum.auto()


class RoutingType(StrEnum):
    """True if an address hands a message to one of its queues' consumers or to every
    subscription."""

    ANYCAST = enum.auto()
    MULTICAST = enum.auto()


class FullPolicy(StrEnum):
    """Behaviour of a full address towards a message."""

    PAGE = enum.auto()
    BLOCK = enum.auto()
    FAIL = enum.auto()
    DROP = enum.auto()


class Clock(StrEnum):
    """The kind of time that an event's instant belongs to."""

    VIRTUAL = enum.auto()
    REAL = enum.auto()


class Vantage(StrEnum):
    """The observer of an event: the harness at its end of the wire, the broker under test itself,
    or a capture of packets somewhere between a broker and its clients."""

    PEER = enum.auto()
    BROKER = enum.auto()
    CAPTURE = enum.auto()


class CloseHow(StrEnum):
    """Ways in which the peer ended a connection."""

    EOF = enum.auto()
    """An orderly end of stream (FIN)."""
    RESET = enum.auto()
    """A TCP reset, or in virtual time a cut link."""
