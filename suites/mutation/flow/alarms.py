"""Faults of RabbitMQ's flow control: alarms and their marks, who is held back by them, paging, flow
between processes."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.families.rabbitmq.resources import DISK_MOST_MS, Resources
from brokerproof.reference_broker.kernel.connection_info import FLOW, RUNNING
from brokerproof.reference_broker.kernel.context import Shared
from brokerproof.reference_broker.kernel.message import Message
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.protocols.amqp091.channel import Channel
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection
from brokerproof.reference_broker.protocols.amqp091.paging import PagingOut
from brokerproof.reference_broker.protocols.amqp091.throttle import Throttle
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.reference_broker.protocols.websocket.connection import Inner, WebSocketConnection
from brokerproof.reference_broker.settings.settings import Acceptor
from brokerproof.suites.mutation.mutant import Group, Reached

alarms = Group("alarms", "reference-rabbitmq")


# --- marks ----------------------------------------------------------------------------------------


@alarms.mutant("RABBITMQ-FLOW-mem-1 RABBITMQ-FLOW-mem-2 RABBITMQ-FLOW-mem-3")
def short_at_the_mark(parts: Parts, reached: Reached) -> Parts:
    """Memory is short as soon as the watermark is reached."""

    class Faulty(Resources):
        @property
        def memory_limit(self) -> int:
            limit = super().memory_limit
            return reached.instead(limit, max(0, limit - 1))

    return replace(parts, resources=Faulty)


@alarms.mutant("RABBITMQ-FLOW-mem-1 RABBITMQ-FLOW-mem-3")
def the_address_space_is_forgotten(parts: Parts, reached: Reached) -> Parts:
    """The watermark is a fraction of the memory, however little of it can be addressed."""

    class Faulty(Resources):
        def _usable(self) -> int:
            return reached.instead(super()._usable(), self._total())

    return replace(parts, resources=Faulty)


@alarms.mutant("RABBITMQ-FLOW-mem-5")
def too_much_is_assumed(parts: Parts, reached: Reached) -> Parts:
    """Two gibibytes are assumed where nobody knows how much memory there is."""

    class Faulty(Resources):
        def _total(self) -> int:
            total = super()._total()
            known = self.reading is not None and self.reading.memory_total is not None
            return total if known else reached.instead(total, 2 * total)

    return replace(parts, resources=Faulty)


@alarms.mutant("RABBITMQ-FLOW-disk-2")
def the_disk_is_looked_at_at_leisure(parts: Parts, reached: Reached) -> Parts:
    """Free disk space is looked at every ten seconds, however near the limit is."""

    class Faulty(Resources):
        def _disk_interval_ms(self, free: int | None, short: bool) -> int:
            return reached.instead(super()._disk_interval_ms(free, short), DISK_MOST_MS)

    return replace(parts, resources=Faulty)


@alarms.mutant("RABBITMQ-FLOW-disk-3")
def a_multiple_of_the_memory_is_a_number_of_octets(parts: Parts, reached: Reached) -> Parts:
    """A disk limit that is relative to the memory is taken for octets."""

    class Faulty(Resources):
        @property
        def disk_limit(self) -> int:
            return reached.instead(super().disk_limit, int(self._disk))

    return replace(parts, resources=Faulty)


# --- who is held back -----------------------------------------------------------------------------


@alarms.mutant(
    "RABBITMQ-FLOW-mem-1 RABBITMQ-FLOW-mem-2 RABBITMQ-FLOW-mem-4 RABBITMQ-FLOW-disk-1"
    " RABBITMQ-FLOW-conn-3"
)
def told_and_not_held_back(parts: Parts, reached: Reached) -> Parts:
    """Whoever publishes under an alarm is told so, and read on."""

    class Faulty(Throttle):
        @property
        def holds(self) -> bool:
            return reached.instead(super().holds, False)

    return replace(parts, throttle091=Faulty)


@alarms.mutant("RABBITMQ-FLOW-notify-1")
def everybody_is_told(parts: Parts, reached: Reached) -> Parts:
    """Clients are told of alarms that did not say that they understand it."""

    class Faulty(Throttle):
        @property
        def _understands(self) -> bool:
            return reached.instead(super()._understands, True)

    return replace(parts, throttle091=Faulty)


@alarms.mutant("RABBITMQ-FLOW-conn-1")
def silence_counts_all_the_same(parts: Parts, reached: Reached) -> Parts:
    """A client that is not read is given up for its silence."""

    class Faulty(Amqp091Connection):
        def pause(self) -> None:
            reached()

    return replace(parts, amqp091=Faulty)


@alarms.mutant("RABBITMQ-FLOW-conn-1 RABBITMQ-FLOW-mem-1 RABBITMQ-FLOW-disk-1")
def stomp_knows_no_alarm(parts: Parts, reached: Reached) -> Parts:
    """STOMP clients publish as ever while the broker is short of something."""

    class Faulty(StompConnection):
        def _blocks(self, frame: Frame) -> bool:
            return bool(self.shared.alarms.raised) and reached.instead(
                frame.head.command == "SEND", False
            )

    return replace(parts, stomp=Faulty)


@alarms.mutant("RABBITMQ-FLOW-disk-1 RABBITMQ-FLOW-mem-1", recreates="rabbitmq-server#14795")
def the_first_alarm_that_is_over_frees_stomp(parts: Parts, reached: Reached) -> Parts:
    """A STOMP client that waits for two alarms goes on when one of them is over."""

    class Faulty(StompConnection):
        def _blocks(self, frame: Frame) -> bool:
            blocks = super()._blocks(frame)
            raised = self.shared.alarms.raised
            if blocks and len(raised) > 1:
                self._look_again(self.shared.now)
            return blocks

        def _look_again(self, now: Instant) -> None:
            self.shared.deadlines.call_at(now + 1_000_000, self._on_look, self.conn)

        def _on_look(self, now: Instant) -> None:
            if self.blocked and len(self.shared.alarms.raised) == 1:
                reached()
                self.shared.alarms.forget(self._unblock)
                self._unblock()
            elif self.blocked:
                self._look_again(now)

    return replace(parts, stomp=Faulty)


@alarms.mutant(
    "RABBITMQ-FLOW-conn-1 RABBITMQ-FLOW-mem-1 RABBITMQ-FLOW-disk-1",
    recreates="rabbitmq-server#17439",
)
def web_sockets_know_no_alarm(parts: Parts, reached: Reached) -> Parts:
    """STOMP clients over WebSocket publish as ever while the broker is short of something."""

    class OverTcp(StompConnection):
        over_tcp = True

        def _blocks(self, frame: Frame) -> bool:
            if self.over_tcp:
                return super()._blocks(frame)
            return bool(self.shared.alarms.raised) and reached.instead(
                frame.head.command == "SEND", False
            )

    class Faulty(WebSocketConnection):
        def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, inner: Inner) -> None:
            super().__init__(conn, acceptor, shared, inner)
            if isinstance(inner, OverTcp):
                inner.over_tcp = False

    return replace(parts, stomp=OverTcp, web_socket=Faulty)


@alarms.mutant(
    "RABBITMQ-FLOW-conn-1 RABBITMQ-FLOW-mem-1 RABBITMQ-FLOW-disk-1",
    recreates="rabbitmq-server#9953",
)
def sessions_know_no_alarm(parts: Parts, reached: Reached) -> Parts:
    """The windows of AMQP 1.0 sessions stay open while the broker is short of something."""

    class Faulty(Session):
        def alarmed(self, short: bool) -> None:
            reached()

    return replace(parts, session=Faulty)


# --- paging ---------------------------------------------------------------------------------------


@alarms.mutant("RABBITMQ-FLOW-page-1")
def paging_begins_with_the_alarm(parts: Parts, reached: Reached) -> Parts:
    """Queues write out what they hold when publishers are blocked, and not before."""

    class Faulty(PagingOut):
        @property
        def wanted(self) -> bool:
            reading, limit = self._resources.reading, self._resources.memory_limit
            return reached.instead(
                super().wanted, reading is not None and reading.memory_used > limit
            )

    return replace(parts, paging_out=Faulty)


@alarms.mutant("RABBITMQ-FLOW-page-2")
def a_ratio_above_one_pages(parts: Parts, reached: Reached) -> Parts:
    """A ratio above 1.0 is taken for 1.0."""

    class Faulty(PagingOut):
        @property
        def wanted(self) -> bool:
            if self.ratio > 1.0:
                reached()
                self.ratio = 1.0
            return super().wanted

    return replace(parts, paging_out=Faulty)


@alarms.mutant("RABBITMQ-FLOW-disk-1")
def paging_onto_a_full_disk(parts: Parts, reached: Reached) -> Parts:
    """Queues write out what they hold though disk space is short."""

    class Faulty(PagingOut):
        @property
        def wanted(self) -> bool:
            reading = self._resources.reading
            needed = (
                reading is not None
                and self.ratio <= 1.0
                and reading.memory_used >= self.ratio * self._resources.memory_limit
            )
            return reached.instead(super().wanted, needed)

    return replace(parts, paging_out=Faulty)


# --- flow -----------------------------------------------------------------------------------------


@alarms.mutant("RABBITMQ-FLOW-conn-2")
def nobody_is_ever_in_flow(parts: Parts, reached: Reached) -> Parts:
    """A connection is read however far it is ahead of its queues."""

    class Faulty(Throttle):
        def in_flow(self, channel: Channel, blocked: bool) -> None:
            if blocked:
                reached()

    return replace(parts, throttle091=Faulty)


@alarms.mutant("RABBITMQ-FLOW-conn-2")
def flow_is_not_told(parts: Parts, reached: Reached) -> Parts:
    """A connection in flow is told to be running."""

    class Faulty(Throttle):
        @property
        def state(self) -> str:
            state = super().state
            return reached.instead(state, RUNNING) if state == FLOW else state

    return replace(parts, throttle091=Faulty)


# --- full queues ----------------------------------------------------------------------------------


@alarms.mutant("RABBITMQ-AMQP091-LEN-02 STOMP12-RCPT-01 STOMP12-SEND-07")
def a_refusal_is_taken_for_success(parts: Parts, reached: Reached) -> Parts:
    """STOMP and AMQP 1.0 clients are told that a message was taken which a queue has refused."""

    class Faulty(Router):
        def publish(self, message: Message) -> bool:
            return reached.instead(super().publish(message), True)

    return replace(parts, router=Faulty)
