"""Watches peers for silence. Each family has its own rule for how long silence may last."""

from abc import ABC, abstractmethod

from brokerproof.harness.model.time import Duration, Instant

NEVER: Instant = 2**63 - 1


class SilenceMonitor(ABC):
    """Watches what one connection receives.

    ``start`` is the broker's start, ``interval`` the time between checks, ``ttl`` how long the
    connection may be silent, ``now`` when it was opened, ``last_heard`` when the last bytes
    arrived."""

    def __init__(self, start: Instant, interval: Duration, ttl: Duration, now: Instant) -> None:
        self.start = start
        self.interval = interval
        self.ttl = ttl
        self.last_heard = now

    def on_bytes_received(self, now: Instant, data: bytes) -> None:
        """Record the arrival of ``data``. Any byte is a sign of life, even outside a frame
        (STOMP11-HB-08, STOMP12-HB-08)."""
        self.last_heard = now

    @abstractmethod
    def agreed(self, now: Instant, ttl: Duration, first: Duration) -> None:
        """Apply the agreed ``ttl`` from ``now`` on; monitors with check times of their own use
        ``first``.
        """

    @abstractmethod
    def deadline(self) -> Instant:
        """Return when the connection is closed if nothing more arrives; NEVER for never."""


class IntervalMonitor(SilenceMonitor):
    """Checks for silence once per ``ttl`` at calculated instants. It is inactive before
    :meth:`agreed` and with a ``ttl`` of 0."""

    def __init__(self, start: Instant, interval: Duration, ttl: Duration, now: Instant) -> None:
        super().__init__(start, interval, 0, now)
        self._first = now

    def agreed(self, now: Instant, ttl: Duration, first: Duration) -> None:
        self.ttl = ttl
        self._first = now + first

    def _look(self, at: Instant) -> Instant:
        """Return the instant of the check that detects bytes received ``at``."""
        return self._first + max(0, -(-(at - self._first) // self.ttl)) * self.ttl


class Beats:
    """Our own heartbeats: one every ``period`` ns after ``now``, whatever else was sent
    (STOMP12-HB-09).

    Heartbeats are timed from the agreement, not from the last heartbeat, so a late host causes no
    drift."""

    def __init__(self, period: Duration, now: Instant) -> None:
        self.period = period
        self.deadline: Instant = now + period

    def beat(self, now: Instant) -> bytes:
        """Return the bytes to send at ``now``, on or after the deadline, and move the deadline."""
        self.deadline += self.period
        if self.deadline <= now:
            self.deadline = now + self.period
        return b"\n"
