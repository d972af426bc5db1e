"""Enumerations that traces, results, cases and brokers share."""

import enum


class StrEnum(enum.StrEnum):
    """An enumeration whose members appear in traces and results under their names."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[str]) -> str:
        return name


class AckMode(StrEnum):
    AUTO = enum.auto()
    CLIENT = enum.auto()
    """Cumulative: a settlement covers all earlier deliveries of the subscription too."""
    CLIENT_INDIVIDUAL = enum.auto()


class Outcome(StrEnum):
    ACCEPTED = enum.auto()
    REJECTED = enum.auto()
    RELEASED = enum.auto()
    MODIFIED = enum.auto()


class RoutingType(StrEnum):
    """Whether an address delivers each message to one consumer or to every subscription."""

    ANYCAST = enum.auto()
    MULTICAST = enum.auto()


class FullPolicy(StrEnum):
    """What a full address does with a new message."""

    PAGE = enum.auto()
    BLOCK = enum.auto()
    FAIL = enum.auto()
    DROP = enum.auto()


class Clock(StrEnum):
    """The clock by which an event was timed."""

    VIRTUAL = enum.auto()
    REAL = enum.auto()


class Vantage(StrEnum):
    """Where an event was observed: at the harness's end of the wire, in the broker under test, or
    by a packet capture between a broker and its clients."""

    PEER = enum.auto()
    BROKER = enum.auto()
    CAPTURE = enum.auto()


class CloseHow(StrEnum):
    """How the peer ended a connection."""

    EOF = enum.auto()
    """An orderly end of the stream (FIN)."""
    RESET = enum.auto()
    """A TCP reset, or a cut link in virtual time."""
