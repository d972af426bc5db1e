"""Faults of consumer windows: what is charged, what is given back, and sizes that are special."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.harness.model.enums import AckMode
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.credit import UNLIMITED, ByteWindow
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.reference_broker.protocols.stomp.subscription import Delivery, Subscription
from brokerproof.suites.mutation.mutant import Group, Reached, rewritten, without

windows = Group("windows")

NAMES, ZERO, POSITIVE, NONE, DEFAULTS = (f"ARTEMIS-STOMP-window-{number}" for number in range(1, 6))
OURS, THEIRS = "consumer-window-size", "activemq.prefetchSize"


class Loose(ByteWindow):
    """A window whose attributes a mutant may add to."""

    __slots__ = ("__dict__",)


# --- what is charged ------------------------------------------------------------------------------


@windows.mutant(POSITIVE)
def body_charged(parts: Parts, reached: Reached) -> Parts:
    """A delivery costs the octets of its body and not of its frame."""

    class Faulty(Subscription):
        def deliver(self, entry: Entry) -> None:
            before = self.window.credit
            super().deliver(entry)
            if self.window.size != UNLIMITED and self.mode is not AckMode.AUTO:
                delivery = next(reversed(self._unsettled.values()))
                delivery.charge = reached.instead(delivery.charge, len(entry.message.body))
                self.window.credit = before - delivery.charge

    return replace(parts, subscription=Faulty)


@windows.mutant(f"{POSITIVE} {ZERO}")
def nothing_charged(parts: Parts, reached: Reached) -> Parts:
    """Deliveries cost nothing: a window never shuts."""

    class Faulty(ByteWindow):
        def charge(self, octets: int) -> None:
            if self.size != UNLIMITED:
                reached()

        def give_back(self, octets: int) -> None:
            """Nothing was taken."""

    return replace(parts, window=Faulty)


@windows.mutant(POSITIVE)
def a_few_octets_forgotten(parts: Parts, reached: Reached) -> Parts:
    """The NUL that ends a frame is not charged: every delivery costs one octet too little."""

    class Faulty(ByteWindow):
        def charge(self, octets: int) -> None:
            super().charge(octets - 1)
            if self.size != UNLIMITED:
                reached()

        def give_back(self, octets: int) -> None:
            super().give_back(octets - 1)

    return replace(parts, window=Faulty)


@windows.mutant(POSITIVE)
def must_fit(parts: Parts, reached: Reached) -> Parts:
    """A message is sent only if there is room for one as large as the last: no window is ever
    exceeded."""

    class Faulty(Loose):
        last = 0

        def has_room(self) -> bool:
            right = super().has_room()
            return reached.instead(right, right and (self.size <= 0 or self.credit >= self.last))

        def charge(self, octets: int) -> None:
            super().charge(octets)
            self.last = octets

    return replace(parts, window=Faulty)


@windows.mutant(POSITIVE)
def one_more_at_zero(parts: Parts, reached: Reached) -> Parts:
    """The window shuts when its credit is below zero and not when it is zero: >= for >."""

    class Faulty(ByteWindow):
        def has_room(self) -> bool:
            return reached.instead(super().has_room(), self.credit >= 0 or self.size == UNLIMITED)

    return replace(parts, window=Faulty)


@windows.mutant(POSITIVE)
def counted_from_half(parts: Parts, reached: Reached) -> Parts:
    """A window starts with half its size."""

    class Faulty(ByteWindow):
        def __init__(self, size: int) -> None:
            super().__init__(size)
            self.credit = reached.instead(
                self.credit, self.credit // 2 if size > 1 else self.credit
            )

    return replace(parts, window=Faulty)


# --- what is given back ---------------------------------------------------------------------------


@windows.mutant(POSITIVE)
def given_back_twice(parts: Parts, reached: Reached) -> Parts:
    """A settlement gives back twice what its messages cost."""

    class Faulty(ByteWindow):
        def give_back(self, octets: int) -> None:
            super().give_back(2 * octets)
            if self.size != UNLIMITED:
                reached()

    return replace(parts, window=Faulty)


@windows.mutant(f"{POSITIVE} {ZERO}")
def nothing_given_back(parts: Parts, reached: Reached) -> Parts:
    """Settlements give nothing back: a window that was used up stays shut."""

    class Faulty(ByteWindow):
        def give_back(self, octets: int) -> None:
            if self.size != UNLIMITED:
                reached()

    return replace(parts, window=Faulty)


@windows.mutant(ZERO)
def nothing_given_back_by_nack(parts: Parts, reached: Reached) -> Parts:
    """ACK gives its octets back and NACK does not."""
    refusing = [False]

    class Faulty(ByteWindow):
        def give_back(self, octets: int) -> None:
            if not refusing[0]:
                super().give_back(octets)
            elif self.size != UNLIMITED:
                reached()

    def nack(session: StompConnection, frame: Frame) -> After:
        refusing[0] = True
        try:
            return parts.commands["NACK"](session, frame)
        finally:
            refusing[0] = False

    return replace(parts, window=Faulty, commands={**parts.commands, "NACK": nack})


@windows.mutant(POSITIVE, recreates="ARTEMIS-589")
def cumulative_ack_pays_for_one(parts: Parts, reached: Reached) -> Parts:
    """A cumulative ACK gives back the octets of the one message that it names."""

    class Faulty(Subscription):
        def take(self, delivery: Delivery) -> list[Entry]:
            covered = len(self._unsettled)
            before = self.window.credit
            taken = super().take(delivery)
            if self.window.size != UNLIMITED and len(taken) > 1 and covered:
                self.window.credit = reached.instead(self.window.credit, before + delivery.charge)
            return taken

    return replace(parts, subscription=Faulty)


@windows.mutant(POSITIVE)
def opened_whole_by_any_ack(parts: Parts, reached: Reached) -> Parts:
    """Any settlement opens the window to its full size, whatever is still held."""

    class Faulty(ByteWindow):
        def give_back(self, octets: int) -> None:
            super().give_back(octets)
            if self.size > 0:
                self.credit = reached.instead(self.credit, self.size)

    return replace(parts, window=Faulty)


@windows.mutant(POSITIVE)
def paid_by_the_last(parts: Parts, reached: Reached) -> Parts:
    """A settlement gives back what the last delivery cost, not what the settled ones did."""

    class Faulty(Loose):
        last = 0

        def charge(self, octets: int) -> None:
            super().charge(octets)
            self.last = octets

        def give_back(self, octets: int) -> None:
            super().give_back(reached.instead(octets, self.last) if self.size > 0 else octets)

    return replace(parts, window=Faulty)


# --- special sizes --------------------------------------------------------------------------------


@windows.mutant(ZERO)
def zero_is_unlimited(parts: Parts, reached: Reached) -> Parts:
    """A window of 0 holds nothing back."""

    class Faulty(ByteWindow):
        def __init__(self, size: int) -> None:
            super().__init__(reached.instead(size, size or UNLIMITED))

    return replace(parts, window=Faulty)


@windows.mutant(ZERO)
def zero_gives_two(parts: Parts, reached: Reached) -> Parts:
    """A window of 0 lets two messages out before it wants a settlement."""

    class Faulty(Loose):
        out = 0

        def has_room(self) -> bool:
            right = super().has_room()
            return reached.instead(right, right or (self.size == 0 and self.out < 2))

        def charge(self, octets: int) -> None:
            super().charge(octets)
            self.out += 1

        def give_back(self, octets: int) -> None:
            super().give_back(octets)
            self.out -= 1

    return replace(parts, window=Faulty)


@windows.mutant(ZERO)
def zero_gives_none(parts: Parts, reached: Reached) -> Parts:
    """A window of 0 lets nothing out at all."""

    class Faulty(ByteWindow):
        def has_room(self) -> bool:
            right = super().has_room()
            return right if self.size else reached.instead(right, False)

    return replace(parts, window=Faulty)


@windows.mutant(NONE)
def unlimited_is_zero(parts: Parts, reached: Reached) -> Parts:
    """A window of -1 counts as 0: one message at a time."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get(OURS) == "-1":
            reached()
            frame = rewritten(frame, ((OURS, "0"), *without(frame, OURS, THEIRS).head.headers))
        return parts.commands["SUBSCRIBE"](session, frame)

    return replace(parts, commands={**parts.commands, "SUBSCRIBE": subscribe})


@windows.mutant(f"{NONE} {DEFAULTS}")
def unlimited_is_the_default(parts: Parts, reached: Reached) -> Parts:
    """A window of -1 counts as none given: the acceptor's default holds."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get(OURS) == "-1":
            reached()
            frame = without(frame, OURS)
        return parts.commands["SUBSCRIBE"](session, frame)

    return replace(parts, commands={**parts.commands, "SUBSCRIBE": subscribe})


@windows.mutant(f"{POSITIVE} {NAMES}")
def counted_in_kilobytes(parts: Parts, reached: Reached) -> Parts:
    """A window is taken for a number of kibibytes."""

    class Faulty(ByteWindow):
        def __init__(self, size: int) -> None:
            super().__init__(reached.instead(size, size * 1024 if size > 0 else size))

    return replace(parts, window=Faulty)
