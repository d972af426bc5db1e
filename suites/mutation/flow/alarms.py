"""Faults of RabbitMQ's flow control: alarms, their thresholds, the clients they block, paging, and
flow between processes."""

from functools import partial

from brokerproof.reference_broker.families.rabbitmq.paging import PagingOut
from brokerproof.reference_broker.families.rabbitmq.resources import DISK_MOST_MS, Resources
from brokerproof.reference_broker.kernel.connection_info import FLOW, RUNNING
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection
from brokerproof.reference_broker.protocols.amqp091.throttle import Throttle
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.websocket.connection import WebSocketConnection
from brokerproof.suites.mutation.mutant import Group, breaks

alarms = Group("alarms", "reference-rabbitmq")


# --- watermarks -----------------------------------------------------------------------------------


@alarms.result(Resources, "memory_limit")
@breaks("RABBITMQ-FLOW-mem-1 RABBITMQ-FLOW-mem-2 RABBITMQ-FLOW-mem-3")
def short_at_the_mark(limit, self):
    """Memory is short as soon as the watermark is reached."""
    return max(0, limit - 1)


@alarms.result(Resources, "_usable", breaks="RABBITMQ-FLOW-mem-1 RABBITMQ-FLOW-mem-3")
def the_address_space_is_forgotten(right, self):
    """The watermark is a fraction of the machine's memory, even if the address space is smaller."""
    return self._total()


@alarms.result(Resources, "_total", breaks="RABBITMQ-FLOW-mem-5")
def too_much_is_assumed(total, self):
    """Two gibibytes are assumed if the amount of memory is unknown."""
    known = self.reading is not None and self.reading.memory_total is not None
    return total if known else 2 * total


@alarms.result(Resources, "_disk_interval_ms", breaks="RABBITMQ-FLOW-disk-2")
def the_disk_is_looked_at_at_leisure(right, self, free, short):
    """Free disk space is checked every ten seconds, however close to the limit it is."""
    return DISK_MOST_MS


@alarms.result(Resources, "disk_limit", breaks="RABBITMQ-FLOW-disk-3")
def a_multiple_of_the_memory_is_a_number_of_bytes(right, self):
    """A disk limit relative to the memory is read as bytes."""
    return int(self._disk)


# --- blocked clients ------------------------------------------------------------------------------


@alarms.result(Throttle, "holds")
@breaks(
    "RABBITMQ-FLOW-mem-1 RABBITMQ-FLOW-mem-2 RABBITMQ-FLOW-mem-4 RABBITMQ-FLOW-disk-1",
    "RABBITMQ-FLOW-conn-3",
)
def told_and_not_held_back(right, self):
    """Publishers are notified of an alarm but not blocked."""
    return False


@alarms.result(Throttle, "_understands", breaks="RABBITMQ-FLOW-notify-1")
def everybody_is_told(right, self):
    """Clients without the capability are notified of alarms too."""
    return True


@alarms.override(Amqp091Connection, "pause", breaks="RABBITMQ-FLOW-conn-1")
def silence_counts_all_the_same(original, reached, self):
    """A blocked client is disconnected for its silence."""
    reached()


@alarms.override(StompConnection, "_blocks")
@breaks("RABBITMQ-FLOW-conn-1 RABBITMQ-FLOW-mem-1 RABBITMQ-FLOW-disk-1")
def stomp_knows_no_alarm(original, reached, self, frame):
    """Alarms do not block STOMP clients."""
    return bool(self.shared.alarms.raised) and reached.instead(frame.head.command == "SEND", False)


@alarms.mutant("RABBITMQ-FLOW-disk-1 RABBITMQ-FLOW-mem-1", recreates="rabbitmq-server#14795")
def the_first_alarm_that_is_over_frees_stomp(patch, reached):
    """A STOMP client blocked by two alarms continues when the first one ends."""

    def look_again(connection, now):
        connection.shared.deadlines.call_at(
            now + 1_000_000, partial(on_look, connection), connection.conn
        )

    def on_look(connection, now):
        if reached(connection.blocked and len(connection.shared.alarms.raised) == 1):
            connection.shared.alarms.forget(connection._unblock)
            connection._unblock()
        elif connection.blocked:
            look_again(connection, now)

    @patch.result(StompConnection)
    def _blocks(blocks, self, frame):
        if blocks and len(self.shared.alarms.raised) > 1:
            look_again(self, self.shared.clock.now)
        return blocks


@alarms.mutant(
    "RABBITMQ-FLOW-conn-1 RABBITMQ-FLOW-mem-1 RABBITMQ-FLOW-disk-1",
    recreates="rabbitmq-server#17439",
)
def web_sockets_know_no_alarm(patch, reached):
    """Alarms do not block STOMP clients over WebSocket."""
    over_websocket = set()

    @patch.after(WebSocketConnection)
    def __init__(self, conn, acceptor, shared, inner):
        over_websocket.add(inner)

    @patch.override(StompConnection)
    def _blocks(original, self, frame):
        if self not in over_websocket:
            return original(self, frame)
        return bool(self.shared.alarms.raised) and reached.instead(
            frame.head.command == "SEND", False
        )


@alarms.override(Session, "alarmed", recreates="rabbitmq-server#9953")
@breaks("RABBITMQ-FLOW-conn-1 RABBITMQ-FLOW-mem-1 RABBITMQ-FLOW-disk-1")
def sessions_know_no_alarm(original, reached, self, short):
    """Alarms do not close the windows of AMQP 1.0 sessions."""
    reached()


# --- paging ---------------------------------------------------------------------------------------


@alarms.result(PagingOut, "is_needed", breaks="RABBITMQ-FLOW-page-1")
def paging_begins_with_the_alarm(right, self):
    """Queues page out only when publishers are blocked."""
    reading, limit = self._resources.reading, self._resources.memory_limit
    return reading is not None and reading.memory_used > limit


@alarms.before(PagingOut, "is_needed", breaks="RABBITMQ-FLOW-page-2")
def a_ratio_above_one_pages(reached, self):
    """A ratio above 1.0 is read as 1.0."""
    if reached(self.ratio > 1.0):
        self.ratio = 1.0


@alarms.result(PagingOut, "is_needed", breaks="RABBITMQ-FLOW-disk-1")
def paging_onto_a_full_disk(right, self):
    """Queues page out although disk space is short."""
    reading = self._resources.reading
    return (
        reading is not None
        and self.ratio <= 1.0
        and reading.memory_used >= self.ratio * self._resources.memory_limit
    )


# --- flow -----------------------------------------------------------------------------------------


@alarms.override(Throttle, "in_flow", breaks="RABBITMQ-FLOW-conn-2")
def nobody_is_ever_in_flow(original, reached, self, channel, blocked):
    """A connection is read regardless of how far it is ahead of its queues."""
    reached(blocked)


@alarms.result(Throttle, "state", breaks="RABBITMQ-FLOW-conn-2")
def flow_is_not_told(state, self):
    """A connection in flow is reported as running."""
    return RUNNING if state == FLOW else state


# --- full queues ----------------------------------------------------------------------------------


@alarms.result(Router, "publish", breaks="RABBITMQ-AMQP091-LEN-02 STOMP12-RCPT-01 STOMP12-SEND-07")
def a_refusal_is_taken_for_success(right, self, message):
    """STOMP and AMQP 1.0 clients get a confirmation for a message that a queue refused."""
    return True
