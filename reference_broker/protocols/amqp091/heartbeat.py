"""Heartbeats (4.2.7) as in RabbitMQ, which satisfies the specification.

The client decides the interval T (connection.tune-ok); 0 means no heartbeats. From tune-ok on, we
check twice per interval whether anything was sent since the last check, and send a heartbeat if
not. At the end of each interval we check whether anything arrived. The second check in a row that
finds nothing closes the transport, two to three intervals after the last byte. The first check
after tune-ok always finds something.
"""

from brokerproof.harness.model.time import Instant, seconds


class HeartBeats:
    """The heartbeats of one connection. ``interval`` is T in seconds, above 0; ``now`` is the
    instant of tune-ok."""

    def __init__(self, interval: int, now: Instant) -> None:
        self._interval = seconds(interval)
        self._sent = True
        self._first = True
        self._heard = True
        self._missed = 0
        self.send_at: Instant = now + self._interval // 2
        self.look_at: Instant = now + self._interval

    def sent(self) -> None:
        """Record that bytes were sent."""
        self._sent = True

    def on_bytes_received(self) -> None:
        """Record that bytes arrived."""
        self._heard = True

    def beat_due(self, now: Instant) -> bool:
        """Return True if a heartbeat must be sent at ``now``, and advance ``send_at``."""
        self.send_at = _after(self.send_at, self._interval // 2, now)
        quiet, self._sent = self._first or not self._sent, False
        self._first = False
        return quiet

    def is_dead(self, now: Instant) -> bool:
        """Return True if the peer is considered gone at ``now``, and advance ``look_at``."""
        self.look_at = _after(self.look_at, self._interval, now)
        self._missed = 0 if self._heard else self._missed + 1
        self._heard = False
        return self._missed >= 2

    def resume(self, now: Instant) -> None:
        """Measure silence from ``now``, because the connection is read again."""
        self._heard, self._missed = True, 0
        self.look_at = now + self._interval


def _after(at: Instant, step: int, now: Instant) -> Instant:
    at += step
    return at if at > now else now + step
