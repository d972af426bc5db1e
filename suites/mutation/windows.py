"""Faults of consumer windows: what is charged, what is given back, and which size is taken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.words import AckMode, Instant
from reference_broker.config.settings import Acceptor
from reference_broker.core.credit import UNLIMITED, ByteWindow
from reference_broker.core.message import Entry
from reference_broker.core.parts import Parts
from reference_broker.core.shared import Shared
from reference_broker.stomp.commands import After
from reference_broker.stomp.connection import StompConnection
from reference_broker.stomp.frame import Frame
from reference_broker.stomp.subscription import Delivery, Subscription
from suites.mutation.mutant import Group, Reached, rewritten, without

windows = Group("windows")

NAMES, ZERO, POSITIVE, NONE, DEFAULTS = (f"ARTEMIS-STOMP-window-{number}" for number in range(1, 6))
OURS, THEIRS = "consumer-window-size", "activemq.prefetchSize"


class Loose(ByteWindow):
    """A window whose attributes a mutant may add to."""

    __slots__ = ("__dict__",)


# --- what is charged --------------------------------------------------------------------------------------------------


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
    """A message is sent only if there is room for one as large as the last: no window is ever exceeded."""

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
            self.credit = reached.instead(self.credit, self.credit // 2 if size > 1 else self.credit)

    return replace(parts, window=Faulty)


# --- what is given back -----------------------------------------------------------------------------------------------


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


# --- special sizes ----------------------------------------------------------------------------------------------------


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


# --- which size is taken ----------------------------------------------------------------------------------------------


@windows.mutant(NAMES)
def precedence_turned_round(parts: Parts, reached: Reached) -> Parts:
    """activemq.prefetchSize wins over consumer-window-size."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get(OURS) is not None and frame.get(THEIRS) is not None:
            reached()
            frame = without(frame, OURS)
        return parts.commands["SUBSCRIBE"](session, frame)

    return replace(parts, commands={**parts.commands, "SUBSCRIBE": subscribe})


@windows.mutant(NAMES)
def prefetch_size_ignored(parts: Parts, reached: Reached) -> Parts:
    """activemq.prefetchSize is not known."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get(THEIRS) is not None and frame.get(OURS) is None:
            reached()
        return parts.commands["SUBSCRIBE"](session, without(frame, THEIRS))

    return replace(parts, commands={**parts.commands, "SUBSCRIBE": subscribe})


@windows.mutant(f"{NAMES} {POSITIVE} {ZERO} {NONE}")
def window_size_ignored(parts: Parts, reached: Reached) -> Parts:
    """consumer-window-size is not known: the acceptor's default holds."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get(OURS) is not None:
            reached()
        return parts.commands["SUBSCRIBE"](session, without(frame, OURS))

    return replace(parts, commands={**parts.commands, "SUBSCRIBE": subscribe})


@windows.mutant(NAMES, recreates="AMQ-4234")
def prefetch_size_lost_with_a_receipt(parts: Parts, reached: Reached) -> Parts:
    """activemq.prefetchSize is not applied when the SUBSCRIBE asks for a receipt."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get(THEIRS) is not None and frame.get("receipt") is not None:
            reached()
            frame = without(frame, THEIRS)
        return parts.commands["SUBSCRIBE"](session, frame)

    return replace(parts, commands={**parts.commands, "SUBSCRIBE": subscribe})


@windows.mutant(NAMES)
def prefetch_size_in_messages(parts: Parts, reached: Reached) -> Parts:
    """activemq.prefetchSize counts messages, as in the broker that the name comes from."""

    class Window(Loose):
        messages: int | None = None
        out = 0

        def has_room(self) -> bool:
            right = super().has_room()
            return right if self.messages is None else reached.instead(right, self.out < max(1, self.messages))

        def charge(self, octets: int) -> None:
            super().charge(octets)
            self.out += 1

    class Faulty(Subscription):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            if isinstance(self.window, Window) and wanted[0] is not None:
                self.window.messages = wanted[0]

        def take(self, delivery: Delivery) -> list[Entry]:
            taken = super().take(delivery)
            if isinstance(self.window, Window):
                self.window.out -= len(taken)
            return taken

    wanted: list[int | None] = [None]

    def subscribe(session: StompConnection, frame: Frame) -> After:
        size = frame.get(THEIRS)
        wanted[0] = int(size) if size is not None and frame.get(OURS) is None and size.isdecimal() else None
        return parts.commands["SUBSCRIBE"](session, frame)

    return replace(parts, window=Window, subscription=Faulty, commands={**parts.commands, "SUBSCRIBE": subscribe})


class _OtherDefault(StompConnection):
    """A connection whose acceptor has another default window."""

    def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant, size: int) -> None:
        super().__init__(conn, replace(acceptor, stomp_consumer_window_size=size), shared, now)


@windows.mutant(DEFAULTS)
def acceptor_default_ignored(parts: Parts, reached: Reached) -> Parts:
    """The default window is 10240, whatever the acceptor says."""

    class Faulty(_OtherDefault):
        def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> None:
            size = reached.instead(acceptor.stomp_consumer_window_size, 10_240)
            super().__init__(conn, acceptor, shared, now, size)

    return replace(parts, stomp=Faulty)


@windows.mutant(DEFAULTS)
def no_default(parts: Parts, reached: Reached) -> Parts:
    """A subscription that names no window has none."""

    class Faulty(_OtherDefault):
        def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> None:
            size = reached.instead(acceptor.stomp_consumer_window_size, UNLIMITED)
            super().__init__(conn, acceptor, shared, now, size)

    return replace(parts, stomp=Faulty)


@windows.mutant(f"{DEFAULTS} {NONE} STOMP11-SUB-07 STOMP12-SUB-08")
def auto_has_the_default(parts: Parts, reached: Reached) -> Parts:
    """An auto subscription gets the acceptor's window too, which nothing ever opens again."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get("ack") in (None, "auto") and frame.get(OURS) is None and frame.get(THEIRS) is None:
            size = session.acceptor.stomp_consumer_window_size
            if size != UNLIMITED:
                reached()
                frame = rewritten(frame, ((OURS, str(size)), *frame.head.headers))
        return parts.commands["SUBSCRIBE"](session, frame)

    return replace(parts, commands={**parts.commands, "SUBSCRIBE": subscribe})


@windows.mutant(DEFAULTS)
def individual_without_default(parts: Parts, reached: Reached) -> Parts:
    """Only mode client has the acceptor's window; client-individual has none."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        named = frame.get(OURS) is not None or frame.get(THEIRS) is not None
        if frame.get("ack") == "client-individual" and not named:
            reached()
            frame = rewritten(frame, ((OURS, "-1"), *frame.head.headers))
        return parts.commands["SUBSCRIBE"](session, frame)

    return replace(parts, commands={**parts.commands, "SUBSCRIBE": subscribe})


@windows.mutant(POSITIVE)
def one_window_per_connection(parts: Parts, reached: Reached) -> Parts:
    """All subscriptions of a connection share the window of the first."""
    first: dict[int, ByteWindow] = {}

    class Faulty(Subscription):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            shared = first.setdefault(self._conn, self.window)
            if shared is not self.window:
                reached()
            self.window = shared
            self.has_room = shared.has_room

    return replace(parts, subscription=Faulty)


@windows.mutant(POSITIVE)
def delivered_again_for_nothing(parts: Parts, reached: Reached) -> Parts:
    """What is delivered again is not charged."""

    class Faulty(Subscription):
        def deliver(self, entry: Entry) -> None:
            before = self.window.credit
            super().deliver(entry)
            if entry.deliveries > 1 and self.window.size > 0 and self.mode is not AckMode.AUTO:
                next(reversed(self._unsettled.values())).charge = 0
                self.window.credit = reached.instead(self.window.credit, before)

    return replace(parts, subscription=Faulty)


@windows.mutant("ARTEMIS-CONCEPTS-queue-1 ARTEMIS-STOMP-window-2 ARTEMIS-STOMP-window-3")
def shut_window_drops(parts: Parts, reached: Reached) -> Parts:
    """A message that would go to a subscription whose window is shut is dropped instead of kept."""

    class Faulty(parts.queue):  # type: ignore[name-defined,misc]
        def put(self, message: Any, *rest: Any) -> None:
            waiting = len(self)
            super().put(message, *rest)
            if len(self) > waiting and len(self._dispatcher) > 0:
                reached()
                self._ready.pop()

    return replace(parts, queue=Faulty)


@windows.mutant(POSITIVE)
def an_octet_leaks_with_every_ack(parts: Parts, reached: Reached) -> Parts:
    """Every settlement gives back one octet less than it should: after many of them the window is shut for good."""

    class Faulty(ByteWindow):
        def give_back(self, octets: int) -> None:
            super().give_back(octets - 1 if self.size > 0 else octets)
            if self.size > 0:
                reached()

    return replace(parts, window=Faulty)


@windows.mutant(f"{POSITIVE} {DEFAULTS}")
def sixteen_bits(parts: Parts, reached: Reached) -> Parts:
    """The size of a window is kept in 16 bits."""

    class Faulty(ByteWindow):
        def __init__(self, size: int) -> None:
            super().__init__(reached.instead(size, size & 0xFFFF if size > 0 else size))

    return replace(parts, window=Faulty)
