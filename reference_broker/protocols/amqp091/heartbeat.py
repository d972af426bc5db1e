"""Heart-beats (4.2.7), by the rules of RabbitMQ, which keep what the specification asks for.

The client has the last word on the interval T (connection.tune-ok); 0 is none. From tune-ok on we
look twice in each interval whether anything was sent since we looked last, and send a heart-beat if
not; and at the end of each interval whether anything came. The connection is closed, without a
word, at the second look in a row that finds nothing: two to three intervals after the last octet.
The first look always finds something.
"""

from __future__ import annotations

from brokerproof.harness.model.time import Instant, seconds


class HeartBeats:
    """``interval`` T in seconds, above 0; ``now`` is the instant of tune-ok."""

    def __init__(self, interval: int, now: Instant) -> None:
        self._interval = seconds(interval)
        self._sent = True
        self._first = True
        self._heard = True
        self._missed = 0
        self.send_at: Instant = now + self._interval // 2
        self.look_at: Instant = now + self._interval

    def sent(self) -> None:
        """Octets went out."""
        self._sent = True

    def on_bytes_received(self) -> None:
        """Octets came."""
        self._heard = True

    def beat_due(self, now: Instant) -> bool:
        """Whether a heart-beat is to be sent at ``now``, when ``send_at`` has come; that moves
        on."""
        self.send_at = _after(self.send_at, self._interval // 2, now)
        quiet, self._sent = self._first or not self._sent, False
        self._first = False
        return quiet

    def is_dead(self, now: Instant) -> bool:
        """Whether the peer counts as gone at ``now``, when ``look_at`` has come; that moves on."""
        self.look_at = _after(self.look_at, self._interval, now)
        self._missed = 0 if self._heard else self._missed + 1
        self._heard = False
        return self._missed >= 2

    def resume(self, now: Instant) -> None:
        """We read again after we did not: silence is counted from now."""
        self._heard, self._missed = True, 0
        self.look_at = now + self._interval


def _after(at: Instant, step: int, now: Instant) -> Instant:
    at += step
    return at if at > now else now + step
