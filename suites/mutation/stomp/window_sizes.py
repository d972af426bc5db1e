"""Faults of consumer windows: which size is taken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from brokerproof.harness.model.enums import AckMode
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.context import Shared
from brokerproof.reference_broker.kernel.credit import UNLIMITED, ByteWindow
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.reference_broker.protocols.stomp.subscription import Delivery, Subscription
from brokerproof.reference_broker.settings.settings import Acceptor
from brokerproof.suites.mutation.mutant import Group, Reached, rewritten, without
from brokerproof.suites.mutation.stomp.windows import (
    DEFAULTS,
    NAMES,
    NONE,
    OURS,
    POSITIVE,
    THEIRS,
    ZERO,
    Loose,
)

window_sizes = Group("windows")


@window_sizes.mutant(NAMES)
def precedence_turned_round(parts: Parts, reached: Reached) -> Parts:
    """activemq.prefetchSize wins over consumer-window-size."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get(OURS) is not None and frame.get(THEIRS) is not None:
            reached()
            frame = without(frame, OURS)
        return parts.commands["SUBSCRIBE"](session, frame)

    return replace(parts, commands={**parts.commands, "SUBSCRIBE": subscribe})


@window_sizes.mutant(NAMES)
def prefetch_size_ignored(parts: Parts, reached: Reached) -> Parts:
    """activemq.prefetchSize is not known."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get(THEIRS) is not None and frame.get(OURS) is None:
            reached()
        return parts.commands["SUBSCRIBE"](session, without(frame, THEIRS))

    return replace(parts, commands={**parts.commands, "SUBSCRIBE": subscribe})


@window_sizes.mutant(f"{NAMES} {POSITIVE} {ZERO} {NONE}")
def window_size_ignored(parts: Parts, reached: Reached) -> Parts:
    """consumer-window-size is not known: the acceptor's default holds."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get(OURS) is not None:
            reached()
        return parts.commands["SUBSCRIBE"](session, without(frame, OURS))

    return replace(parts, commands={**parts.commands, "SUBSCRIBE": subscribe})


@window_sizes.mutant(NAMES, recreates="AMQ-4234")
def prefetch_size_lost_with_a_receipt(parts: Parts, reached: Reached) -> Parts:
    """activemq.prefetchSize is not applied when the SUBSCRIBE asks for a receipt."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get(THEIRS) is not None and frame.get("receipt") is not None:
            reached()
            frame = without(frame, THEIRS)
        return parts.commands["SUBSCRIBE"](session, frame)

    return replace(parts, commands={**parts.commands, "SUBSCRIBE": subscribe})


@window_sizes.mutant(NAMES)
def prefetch_size_in_messages(parts: Parts, reached: Reached) -> Parts:
    """activemq.prefetchSize counts messages, as in the broker that the name comes from."""

    class Window(Loose):
        messages: int | None = None
        out = 0

        def has_room(self) -> bool:
            right = super().has_room()
            return (
                right
                if self.messages is None
                else reached.instead(right, self.out < max(1, self.messages))
            )

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
        wanted[0] = (
            int(size) if size is not None and frame.get(OURS) is None and size.isdecimal() else None
        )
        return parts.commands["SUBSCRIBE"](session, frame)

    return replace(
        parts,
        window=Window,
        subscription=Faulty,
        commands={**parts.commands, "SUBSCRIBE": subscribe},
    )


class _OtherDefault(StompConnection):
    """A connection whose acceptor has another default window."""

    def __init__(
        self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant, size: int
    ) -> None:
        super().__init__(conn, replace(acceptor, stomp_consumer_window_size=size), shared, now)


@window_sizes.mutant(DEFAULTS)
def acceptor_default_ignored(parts: Parts, reached: Reached) -> Parts:
    """The default window is 10240, whatever the acceptor says."""

    class Faulty(_OtherDefault):
        def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> None:
            size = reached.instead(acceptor.stomp_consumer_window_size, 10_240)
            super().__init__(conn, acceptor, shared, now, size)

    return replace(parts, stomp=Faulty)


@window_sizes.mutant(DEFAULTS)
def no_default(parts: Parts, reached: Reached) -> Parts:
    """A subscription that names no window has none."""

    class Faulty(_OtherDefault):
        def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> None:
            size = reached.instead(acceptor.stomp_consumer_window_size, UNLIMITED)
            super().__init__(conn, acceptor, shared, now, size)

    return replace(parts, stomp=Faulty)


@window_sizes.mutant(f"{DEFAULTS} {NONE} STOMP11-SUB-07 STOMP12-SUB-08")
def auto_has_the_default(parts: Parts, reached: Reached) -> Parts:
    """An auto subscription gets the acceptor's window too, which nothing ever opens again."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if (
            frame.get("ack") in (None, "auto")
            and frame.get(OURS) is None
            and frame.get(THEIRS) is None
        ):
            size = session.acceptor.stomp_consumer_window_size
            if size != UNLIMITED:
                reached()
                frame = rewritten(frame, ((OURS, str(size)), *frame.head.headers))
        return parts.commands["SUBSCRIBE"](session, frame)

    return replace(parts, commands={**parts.commands, "SUBSCRIBE": subscribe})


@window_sizes.mutant(DEFAULTS)
def individual_without_default(parts: Parts, reached: Reached) -> Parts:
    """Only mode client has the acceptor's window; client-individual has none."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        named = frame.get(OURS) is not None or frame.get(THEIRS) is not None
        if frame.get("ack") == "client-individual" and not named:
            reached()
            frame = rewritten(frame, ((OURS, "-1"), *frame.head.headers))
        return parts.commands["SUBSCRIBE"](session, frame)

    return replace(parts, commands={**parts.commands, "SUBSCRIBE": subscribe})


@window_sizes.mutant(POSITIVE)
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


@window_sizes.mutant(POSITIVE)
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


@window_sizes.mutant("ARTEMIS-CONCEPTS-queue-1 ARTEMIS-STOMP-window-2 ARTEMIS-STOMP-window-3")
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


@window_sizes.mutant(POSITIVE)
def an_octet_leaks_with_every_ack(parts: Parts, reached: Reached) -> Parts:
    """Every settlement gives back one octet less than it should: after many of them the window is
    shut for good."""

    class Faulty(ByteWindow):
        def give_back(self, octets: int) -> None:
            super().give_back(octets - 1 if self.size > 0 else octets)
            if self.size > 0:
                reached()

    return replace(parts, window=Faulty)


@window_sizes.mutant(f"{POSITIVE} {DEFAULTS}")
def sixteen_bits(parts: Parts, reached: Reached) -> Parts:
    """The size of a window is kept in 16 bits."""

    class Faulty(ByteWindow):
        def __init__(self, size: int) -> None:
            super().__init__(reached.instead(size, size & 0xFFFF if size > 0 else size))

    return replace(parts, window=Faulty)
