"""Windows and rates on the client's side, without a protocol and without a clock: instants come in
as arguments.

Rate and window know nothing of each other (ARTEMIS-FLOW-consumer-rate-2): the rate says when a
message may be consumed or sent, the window how many bytes may be asked for, or be under way. A
rate of r lets at most ``r * interval + burst`` messages through in any interval whatever, not only
in aligned seconds.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from brokerproof.harness.model.time import NS_PER_S, Instant

Item = TypeVar("Item")


class TokenBucket:
    """``rate`` tokens a second, at most ``burst`` of them saved up, as many there at first; a rate
    of -1 has no limit.

    Exact: counted in parts of a token, one for each nanosecond and message a second.
    """

    def __init__(self, rate: int, burst: int = 1) -> None:
        if rate == 0 or rate < -1 or burst < 1:
            raise ValueError(
                f"a rate is -1 or above 0 and a burst at least 1, not {rate} and {burst}"
            )
        self._rate = rate
        self._most = self._parts = burst * NS_PER_S
        self._counted: Instant | None = None

    def _now(self, now: Instant) -> int:
        if self._counted is None:
            return self._parts
        return min(self._most, self._parts + (now - self._counted) * self._rate)

    def ready_at(self, now: Instant) -> Instant:
        """The first instant from ``now`` on at which there is a token."""
        if self._rate < 0:
            return now
        missing = NS_PER_S - self._now(now)
        return now if missing <= 0 else now - (-missing // self._rate)

    def spend(self, now: Instant) -> None:
        """Take a token ``now``, which is not before an instant at which there was one.

        To be called when it has been used: what is counted from a later instant is never too quick.
        """
        if self._rate < 0:
            return
        self._parts = self._now(now) - NS_PER_S
        self._counted = now


class ConsumerFlow(Generic[Item]):
    """Messages that a consumer has received and not consumed, and when it may go on. Sizes in
    bytes."""

    def __init__(self, window: int, rate: int, burst: int = 1) -> None:
        self.window = window
        self.bucket = TokenBucket(rate, burst)
        self.waiting: deque[tuple[Item, int]] = deque()
        self.size = 0
        """Size of all waiting messages."""

    def arrived(self, item: Item, size: int) -> None:
        self.waiting.append((item, size))
        self.size += size

    def next_at(self, now: Instant) -> Instant | None:
        """Return the instant at which the oldest may be consumed; None while there is none."""
        return self.bucket.ready_at(now) if self.waiting else None

    def consume(self, now: Instant) -> Item:
        """The oldest, at an instant that :meth:`next_at` named or later."""
        item, size = self.waiting.popleft()
        self.size -= size
        self.bucket.spend(now)
        return item

    def asks_at(self, now: Instant) -> Instant | None:
        """At a window of 0: when one more may be asked for, which is when it could be consumed at
        once; None while one is here.

        So no message waits with a consumer that is not ready for it (ARTEMIS-FLOW-consumer-2).
        """
        return None if self.waiting else self.bucket.ready_at(now)

    def credit(self, largest: int, granted: int) -> int:
        """Return how many more messages may be asked for where credit is counted in messages,
        ``granted`` of which are still to arrive.

        ``largest`` is the largest seen, 0 before the first: until then one is asked for at a time.
        Above 0 one at least is asked for when nothing waits, or a message larger than the window
        would never come.
        """
        if not largest:
            return max(0, 1 - granted - len(self.waiting))
        room = (self.window - self.size) // largest - granted
        return max(room, 0 if self.waiting or granted else 1)


class ProducerFlow(Generic[Item]):
    """Messages that a producer has to send, and when it may. Sizes in bytes; a message larger than
    the window goes alone."""

    def __init__(self, window: int, rate: int, burst: int = 1) -> None:
        self.window = window
        self.bucket = TokenBucket(rate, burst)
        self.waiting: deque[tuple[Item, int]] = deque()
        self.under_way = 0
        """Bytes that were sent and of which the broker has not said that it has them."""

    def offer(self, item: Item, size: int) -> None:
        self.waiting.append((item, size))

    def next_at(self, now: Instant) -> Instant | None:
        """Return the instant at which the first may be sent; None while there is none, or the
        window is shut."""
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
