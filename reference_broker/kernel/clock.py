"""The instant of the input being handled. Only the broker sets it."""

from brokerproof.harness.model.time import Duration, Instant


class Clock:
    """``now`` is the instant of the input being handled, and ``conn`` is its connection (None for a
    timer). ``epoch`` plus an instant gives nanoseconds since 1970."""

    __slots__ = ("conn", "epoch", "now")

    def __init__(self, epoch: Duration = 0) -> None:
        self.epoch = epoch
        self.now: Instant = 0
        self.conn: int | None = None

    def instant(self) -> Instant:
        """Return ``now``, for callers that need a function."""
        return self.now

    def unix(self) -> Instant:
        """Return the nanoseconds since 1970."""
        return self.now + self.epoch
