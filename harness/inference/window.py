"""Infers STOMP consumer windows: their unit, the cost of a delivery, and the default for each ack
mode.

With a window of W, a second delivery begins only if the first costs less than W. So the default is
found by bisecting the cost of the first message. Frames with bodies and headers of different sizes
show what is counted: the frame, its body, or the message."""

from bisect import bisect_left
from collections.abc import Callable
from functools import partial

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.inference.estimate import Estimate, Range
from brokerproof.harness.model.time import Duration, ms
from brokerproof.harness.protocols.stomp.raw_peer import MESSAGE, StompPeer

QUIET: Duration = ms(400)
"""A window counts as closed if nothing arrives for this long."""
LARGEST = 1 << 20
"""If a second message follows one with this many bytes, the subscription counts as unlimited …"""
MANY = 1200
"""… unless the broker holds back this many messages."""
_NAMES = {
    "client": "stomp_consumer_window_size",
    "client-individual": "stomp_consumer_window_size_individual",
    "auto": "stomp_consumer_window_size_auto",
}
"""The default window by ack mode."""


class WindowProbes:
    """Subscriptions that settle nothing. ``headers`` are the headers of SUBSCRIBE."""

    def __init__(
        self, bench: Bench, acceptor: str | None, largest: int = LARGEST, many: int = MANY
    ) -> None:
        self.bench, self.acceptor, self.largest, self.many = bench, acceptor, largest, many

    def delivered(
        self,
        bodies: list[int],
        mode: str,
        headers: dict[str, str],
        extra: dict[str, str] | None = None,
    ) -> list[int]:
        """Send messages with these body sizes; return the sizes of the frames that a new
        subscription receives without settling any."""
        to, keeper = self.bench.destination(), self.bench.stomp("1.2", acceptor=self.acceptor)
        producer = self.bench.stomp("1.2", acceptor=self.acceptor)
        for number, size in enumerate(bodies):
            producer.publish(to, b"." * size, extra or {}, receipt=number == len(bodies) - 1)
        keeper.subscribe(to, "w", ack=mode, headers=headers)
        while keeper.messages_seen < len(bodies):
            if not self.bench.wait_until(partial(_has_more, keeper, keeper.messages_seen), QUIET):
                break
        sizes = [frame.size for frame in keeper.inbox if MESSAGE.accepts(frame)]
        for peer in (keeper, producer):
            peer.close_socket()
        return sizes

    def second_comes(
        self, body: int, mode: str, headers: dict[str, str], extra: dict[str, str] | None = None
    ) -> bool:
        """True if a second message is delivered while a message with a body of this size is
        unsettled."""
        return len(self.delivered([body, 1], mode, headers, extra)) > 1

    def largest_that_leaves_room(
        self, mode: str, headers: dict[str, str], extra: dict[str, str] | None = None
    ) -> int:
        """Return the size of the largest body that leaves room for a second message; -1 if none
        does, ``largest`` if all do."""
        if not self.second_comes(0, mode, headers, extra):
            return -1
        return _last(lambda body: self.second_comes(body, mode, headers, extra), 0, self.largest)


def _last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the last number for which ``holds`` is true; ``high`` if it is never false. ``holds``
    is monotonic, and true at ``low``. The search begins by doubling, because most limits are
    small."""
    step = 256
    while low + step < high and holds(low + step):
        low, step = low + step, step * 2
    if low + step >= high:
        if holds(high):
            return high
    else:
        high = low + step
    return low + bisect_left(range(low + 1, high), True, key=lambda number: not holds(number))


def infer_windows(
    bench: Bench, acceptor: str | None, *, largest: int = LARGEST, many: int = MANY
) -> list[Estimate]:
    """Find the unit of consumer windows on ``acceptor``, the cost of a delivery, and the defaults,
    up to ``largest`` bytes and ``many`` messages."""
    probes = WindowProbes(bench, acceptor, largest, many)
    unit = _unit(probes)
    # The same messages with and without 400 extra bytes of headers.
    padding = {"padding": "x" * 400}
    for mode in _NAMES:
        plain = probes.largest_that_leaves_room(mode, {})
        how = f"{mode}: bisection over the first of two messages"
        name = _NAMES[mode]
        if plain >= largest:
            unit.append(_unlimited(probes, mode, name))
            continue
        if plain < 0:
            unit.append(Estimate(name, Range.of(0, 1), "bytes", f"{mode}: one message at a time"))
            continue
        # A window of W is open after a cost of W - 1 and closed after W: the last message that left
        # room cost W - 1.
        cost = probes.delivered([plain, 1], mode, {})[0]
        unit.append(
            Estimate(name, Range.of(cost + 1, cost + 1 + _drift(probes, plain, mode)), "bytes", how)
        )
        if mode == "client":
            padded = probes.largest_that_leaves_room(mode, {}, padding)
            charge = "the whole frame" if plain - padded > 300 else "the body"
            unit.append(
                Estimate(
                    "charge of a delivery",
                    None,
                    "",
                    f"400 bytes of headers more moved it by {plain - padded}",
                    charge,
                )
            )
    return unit


def _drift(probes: WindowProbes, body: int, mode: str) -> int:
    """Return how much frames with equal bodies differ in size, as message-ids and names grow with
    use."""
    sizes = [probes.delivered([body, 1], mode, {})[0] for _ in range(3)]
    return max(sizes) - min(sizes) + 2


def _unit(probes: WindowProbes) -> list[Estimate]:
    """Return the unit of a window: messages if it admits as many large messages as small ones,
    bytes if it admits fewer."""
    counts = [
        len(probes.delivered([size] * 8, "client", {"consumer-window-size": "900"}))
        for size in (1, 600)
    ]
    if counts[0] == counts[1] == 8:
        prefetch = [
            len(probes.delivered([size] * 8, "client", {"prefetch-count": "3"}))
            for size in (1, 600)
        ]
        if prefetch == [3, 3]:
            return [
                Estimate(
                    "unit of a window",
                    None,
                    "",
                    "prefetch-count:3 let out 3 of any size",
                    "messages",
                )
            ]
        return [Estimate("unit of a window", None, "", "no header holds anything back", "none")]
    words = f"a window of 900 let out {counts[0]} small and {counts[1]} large of 8 messages"
    return [
        Estimate(
            "unit of a window", None, "", words, "bytes" if counts[0] > counts[1] else "messages"
        )
    ]


def _unlimited(probes: WindowProbes, mode: str, name: str) -> Estimate:
    """Report a window that no single message closes, although a number of messages may close it."""
    count = probes.many
    came = len(probes.delivered([1] * count, mode, {}))
    if came < count:
        return Estimate(
            f"prefetch ({mode})",
            Range.of(came, came),
            "messages",
            f"{mode}: {count} waited and {came} arrived",
        )
    return Estimate(
        name,
        Range.of(-1, -1),
        "bytes",
        f"{mode}: {count} messages and {probes.largest} bytes were not held back",
    )


def _has_more(peer: StompPeer, than: int) -> bool:
    return peer.messages_seen > than
