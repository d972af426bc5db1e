"""When a silent OpenWire connection is closed, and how long the broker itself may be silent.

Source: the documentation of the InactivityMonitor (OPENWIRE-INACT-1 to -5). Both sides use the
shorter duration R and the shorter initial delay D, and close a connection on which nothing was read
for R. The documentation does not say how soon. ActiveMQ 6.3.1 checks at D after the exchange of
WireFormatInfo and then every R. A check that sees new data resets the count, and the next check
tolerates silence. So the connection is closed 2 R after the first check in the silence."""

from brokerproof.harness.model.time import Duration, ms

LOOKS = 2
"""The number of checks from the last that saw new data to the one that closes the connection."""


def agreed_ms(ours: int, theirs: int) -> int:
    """Return the duration or the delay that both sides use, in ms."""
    return min(ours, theirs)


def silence_interval(duration_ms: int, delay_ms: int) -> tuple[Duration, Duration]:
    """Return the silence after which a connection is closed, counted from an instant after the
    WireFormatInfo exchange.

    ``duration_ms`` is above 0. The close follows after at least one duration. It follows at most
    two durations after the first check, which is at most the delay or one duration away."""
    return ms(duration_ms), ms(max(duration_ms, delay_ms) + LOOKS * duration_ms)


def longest_silence(duration_ms: int) -> Duration:
    """Return the longest silence that the broker is allowed once its monitor runs. After a longer
    silence, the peer would close the connection."""
    return ms(duration_ms)
