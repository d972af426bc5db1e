"""Client-side windows and rates, independent of protocol and clock: instants are arguments.

Rate and window are independent (ARTEMIS-FLOW-consumer-rate-2): the rate determines when a message
may be consumed or sent, and the window how many bytes may be requested or in flight. A rate of r
permits at most ``r * interval + burst`` messages in any interval, not only in whole seconds."""

from collections import deque
from typing import Generic, TypeVar

from brokerproof.harness.model.time import NS_PER_S, Instant

Item = TypeVar("Item")


class TokenBucket:
    """Gains ``rate`` tokens per second, holds at most ``burst``, and starts full. A rate of -1
    means unlimited. The bucket is exact, because it counts billionths of a token and gains ``rate``
    of these each nanosecond."""

    def __init__(self, rate: int, burst: int = 1) -> None:
        if rate == 0 or rate < -1 or burst < 1:
            raise ValueError(
                f"a rate must be -1 or above 0 and a burst at least 1; they are {rate} and {burst}"
            )
        self._rate = rate
        self._most = self._parts = burst * NS_PER_S
        self._counted: Instant | None = None

    def _now(self, now: Instant) -> int:
        if self._counted is None:
            return self._parts
        return min(self._most, self._parts + (now - self._counted) * self._rate)

    def ready_at(self, now: Instant) -> Instant:
        """Return the first instant, not before ``now``, at which a token is available."""
        if self._rate < 0:
            return now
        missing = NS_PER_S - self._now(now)
        return now if missing <= 0 else now - (-missing // self._rate)

    def spend(self, now: Instant) -> None:
        """Take a token ``now``; one must be available. Call this method after using the token: if
        the count starts later, the rate is never exceeded."""
        if self._rate < 0:
            return
        self._parts = self._now(now) - NS_PER_S
        self._counted = now


class ConsumerFlow(Generic[Item]):
    """The messages received but not yet consumed, and when the consumer may continue. Sizes are in
    bytes."""

    def __init__(self, window: int, rate: int, burst: int = 1) -> None:
        self.window = window
        self.bucket = TokenBucket(rate, burst)
        self.waiting: deque[tuple[Item, int]] = deque()
        self.size = 0
        """The total size of the waiting messages."""

    def arrived(self, item: Item, size: int) -> None:
        self.waiting.append((item, size))
        self.size += size

    def next_at(self, now: Instant) -> Instant | None:
        """Return when the oldest message may be consumed; None if no message waits."""
        return self.bucket.ready_at(now) if self.waiting else None

    def consume(self, now: Instant) -> Item:
        """Consume the oldest message, no earlier than :meth:`next_at`."""
        item, size = self.waiting.popleft()
        self.size -= size
        self.bucket.spend(now)
        return item

    def asks_at(self, now: Instant) -> Instant | None:
        """For a window of 0, return when one more message may be requested, namely when it could be
        consumed immediately; None while a message is buffered.

        So no message waits at a consumer that is not ready (ARTEMIS-FLOW-consumer-2)."""
        return None if self.waiting else self.bucket.ready_at(now)

    def credit(self, largest: int, granted: int) -> int:
        """Return how many more messages may be requested if credit counts messages and ``granted``
        more are expected. ``largest`` is the size of the largest message so far. It is 0 before the
        first message, when messages are requested one at a time. Later, at least one is requested
        if none waits, as otherwise a message larger than the window would never arrive."""
        if not largest:
            return max(0, 1 - granted - len(self.waiting))
        room = (self.window - self.size) // largest - granted
        return max(room, 0 if self.waiting or granted else 1)


class ProducerFlow(Generic[Item]):
    """The messages that a producer must send, and when it may send them. Sizes are in bytes; a
    message larger than the window is sent alone."""

    def __init__(self, window: int, rate: int, burst: int = 1) -> None:
        self.window = window
        self.bucket = TokenBucket(rate, burst)
        self.waiting: deque[tuple[Item, int]] = deque()
        self.under_way = 0
        """The number of bytes that were sent but that the broker has not confirmed yet."""

    def offer(self, item: Item, size: int) -> None:
        self.waiting.append((item, size))

    def next_at(self, now: Instant) -> Instant | None:
        """Return when the first message may be sent; None if there is none, or while the window is
        closed."""
        if not self.waiting or not self._fits(self.waiting[0][1]):
            return None
        return self.bucket.ready_at(now)

    def _fits(self, size: int) -> bool:
        return self.window < 0 or not self.under_way or self.under_way + size <= self.window

    def sent(self, now: Instant) -> None:
        self.under_way += self.waiting.popleft()[1]
        self.bucket.spend(now)

    def confirmed(self, size: int) -> None:
        self.under_way -= size
