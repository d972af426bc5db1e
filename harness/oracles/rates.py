"""Client rates and windows, calculated from recorded frames: what was consumed, sent and in flight,
and when.

Source: the Artemis manual, chapter on flow control (ARTEMIS-FLOW-consumer-1, -consumer-rate-1 and
-2, -producer-1, -producer-rate-1). The calculation does not depend on how a client implements rates
and windows: a message is consumed when it is settled, sent when its last frame is sent, and in
flight until it is answered."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from brokerproof.harness.model.time import NS_PER_S, Instant
from brokerproof.harness.protocols.amqp10.fact_reader import ahead
from brokerproof.harness.trace.events import Event, FrameReceived, FrameSent


@dataclass(frozen=True, slots=True)
class Crowd:
    """More messages between two instants (inclusive) than a rate allows."""

    first: Instant
    last: Instant
    count: int

    def __str__(self) -> str:
        return f"{self.count} within {(self.last - self.first) / NS_PER_S:g} s"


def crowd(instants: Sequence[Instant], rate: int, burst: int = 1) -> Crowd | None:
    """Return the interval that exceeds the rate by most; None if no interval exceeds it. A rate
    allows ``rate`` messages per second of an interval, plus ``burst``.

    ``instants`` are in order. Every pair of instants is checked as an interval."""
    worst, excess = None, 0
    least, since = 0, 0
    for position, instant in enumerate(instants):
        # How far the client was ahead of the rate just before this message, in messages * NS_PER_S.
        before = position * NS_PER_S - rate * instant
        if position == 0 or before < least:
            least, since = before, position
        over = before + NS_PER_S - least - burst * NS_PER_S
        if over > excess:
            excess, worst = over, Crowd(instants[since], instant, position - since + 1)
    return worst


@dataclass(frozen=True, slots=True)
class Step:
    """A message of ``size`` bytes is now in flight or, if ``ended``, no longer is."""

    at: Instant
    size: int
    ended: bool


def sent(events: Iterable[Event], conn: int) -> list[Step]:
    """Return the messages that we sent on ``conn`` with the broker's answers: SENDs and RECEIPTs,
    or transfers and dispositions."""
    return list(
        _steps(
            events, conn, FrameSent, FrameReceived, "SEND", "receipt", ("receipt-id",), "RECEIPT"
        )
    )


def received(events: Iterable[Event], conn: int) -> list[Step]:
    """Return the messages that we received on ``conn`` with our settlements: MESSAGEs and ACKs, or
    transfers and dispositions."""
    named = ("id", "message-id")
    return list(_steps(events, conn, FrameReceived, FrameSent, "MESSAGE", "ack", named, "ACK"))


def _steps(
    events: Iterable[Event],
    conn: int,
    out: type[FrameSent] | type[FrameReceived],
    back: type[FrameSent] | type[FrameReceived],
    command: str,
    name: str,
    names: tuple[str, ...],
    answer: str,
) -> Iterator[Step]:
    open_: dict[str | int, int] = {}
    latest: int | None = None
    size = 0
    for event in events:
        if not isinstance(event, FrameSent | FrameReceived) or event.conn != conn:
            continue
        headers = dict(reversed(event.headers))
        if isinstance(event, out):
            if event.command == command:
                key = headers.get(name, headers.get("message-id", ""))
                if key:
                    open_[key] = event.size
                    yield Step(event.at_ns, event.size, ended=False)
            elif event.command == "transfer":
                latest = int(headers["delivery-id"]) if "delivery-id" in headers else latest
                size += event.size if out is FrameReceived else event.body_size
                if headers.get("more") != "true" and latest is not None:
                    open_[latest] = size
                    yield Step(event.at_ns, size, ended=False)
                    size = 0
        elif isinstance(event, back):
            ended: list[str | int] = []
            if event.command == answer:
                ended = [
                    value
                    for header_name in names
                    if (value := headers.get(header_name)) in open_ and value is not None
                ]
            elif (
                event.command == "disposition"
                and headers.get("settled") == "true"
                and headers.get("role") == "receiver"
            ):
                first = int(headers["first"])
                last = int(headers.get("last", headers["first"]))
                ended = [
                    key
                    for key in open_
                    if isinstance(key, int) and ahead(key, first) >= 0 and ahead(last, key) >= 0
                ]
            for gone in ended:
                yield Step(event.at_ns, open_.pop(gone), ended=True)


def instants(steps: Iterable[Step], *, ended: bool) -> list[Instant]:
    """Return the instants at which messages began or, with ``ended``, ended."""
    return [step.at for step in steps if step.ended is ended]


def peak(steps: Iterable[Step]) -> int:
    """Return the most bytes that were in flight at one time."""
    now = most = 0
    for step in steps:
        now += -step.size if step.ended else step.size
        most = max(most, now)
    return most


def beyond(steps: Iterable[Step], window: int) -> str | None:
    """Describe a producer's first message that exceeded its window; None if none did.

    A message larger than the window may be sent alone."""
    now = 0
    for step in steps:
        if not step.ended and now and now + step.size > window:
            return f"{step.size} bytes were sent while {now} were in flight; the window is {window}"
        now += -step.size if step.ended else step.size
    return None


def overrun(steps: Iterable[Step], window: int) -> str | None:
    """Describe the first message delivered to a consumer while its window was closed; None if none
    was.

    A window is open while the consumer holds less than the window's size; a window of 0 is open
    while the consumer holds nothing."""
    now = 0
    for step in steps:
        if not step.ended and now >= max(window, 1):
            return f"{step.size} bytes arrived while {now} were held; the window is {window}"
        now += -step.size if step.ended else step.size
    return None
