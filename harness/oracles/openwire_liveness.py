"""The end of a silent OpenWire connection, and the longest silence of the broker itself.

Sources: the documentation of the InactivityMonitor (OPENWIRE-INACT-1 to -5) says that both sides
count with the shorter duration R and the shorter initial delay D, and that a connection on which
nothing was read for R is closed. How soon, it does not say. The monitor of ActiveMQ 6.3.1 looks D
behind the exchange of WireFormatInfo and every R from then on; a look that sees something new
forgives, and so does the next one; so a silence ends two R behind the first look that follows it.
"""

from __future__ import annotations

from brokerproof.harness.model.time import Duration, ms

LOOKS = 2
"""Number of checks between the one that saw something and the one that gives the peer up."""


def agreed_ms(ours: int, theirs: int) -> int:
    """The duration, or the delay, that both count with. Milliseconds."""
    return min(ours, theirs)


def silence_interval(duration_ms: int, delay_ms: int) -> tuple[Duration, Duration]:
    """After how much silence a connection is closed, counted from an instant not before
    WireFormatInfo was exchanged.

    ``duration_ms`` is above 0. Not before the duration is over; and two of them behind the first
    look, which is as far away as the delay or as one duration.
    """
    return ms(duration_ms), ms(max(duration_ms, delay_ms) + LOOKS * duration_ms)


def longest_silence(duration_ms: int) -> Duration:
    """Return the longest silence of the broker once its monitor runs: longer, and its peer would
    take the connection for dead."""
    return ms(duration_ms)
