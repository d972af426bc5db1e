"""Pauses reading from connections that publish more than the broker can take
(RABBITMQ-FLOW-conn-*).

* An alarm: the broker is short of memory or disk space. Nothing is read after a content header, so
  the message is not accepted, unless it has no body. A client that has the capability receives
  connection.blocked and connection.unblocked.
* Flow: a channel has no credit left for more messages
  (:mod:`brokerproof.reference_broker.families.rabbitmq.credit_flow`). The client is not notified.

While a connection is not read, its client's silence is ignored. Our own heartbeats continue.
"""

from functools import partial
from typing import Any, Protocol

from pamqp import base, commands

from brokerproof.harness.model.time import Duration, Instant, seconds
from brokerproof.reference_broker.families.rabbitmq.credit_flow import CreditFlow
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.kernel.connection_info import (
    BLOCKED,
    BLOCKING,
    BY_FLOW,
    BY_NOTHING,
    BY_RESOURCE,
    FLOW,
    RUNNING,
)
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.outbox import PauseReason
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp091.confirms import Confirms
from brokerproof.reference_broker.protocols.amqp091.message import Amqp091Message

RECENTLY: Duration = seconds(5)
"""How long a connection is still reported as in flow after the flow has ended."""


class Connection(Protocol):
    """A connection that may be throttled."""

    conn: int
    shared: BrokerContext
    capabilities: dict[str, Any]

    def pause(self) -> None:
        """Stop waiting for the peer, which is not read."""

    def resume(self) -> None:
        """Handle the waiting input, and resume reading from the peer."""

    def tell(self, method: base.Frame, channel: int = 0) -> None: ...

    def observe(self, requirement: str, detail: str) -> None:
        """Record that ``requirement`` determined a branch."""


class Throttled(Protocol):
    @property
    def throttle(self) -> "Throttle":
        """Return the connection's throttle."""


class Channel(Protocol):
    """A channel whose queues accept messages at their own pace."""

    number: int
    topology: Topology
    confirms: Confirms | None

    @property
    def connection(self) -> Throttled: ...

    def flush(self) -> None:
        """Send the confirms that are due."""


class Throttle:
    """Pauses reading from one connection. ``by`` is the last cause, and ``at`` is when it began."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reasons: set[PauseReason] = set()
        self._channels: set[Channel] = set()
        self.by = BY_NOTHING
        self.at: Instant | None = None

    @property
    def holds(self) -> bool:
        return bool(self._reasons)

    @property
    def state(self) -> str:
        """The connection's state in RabbitMQ's words."""
        if PauseReason.ALARM in self._reasons:
            return BLOCKED
        if PauseReason.FLOW in self._reasons or self._recently:
            return FLOW
        return BLOCKING if self._connection.shared.alarms.raised else RUNNING

    @property
    def _recently(self) -> bool:
        return (
            self.by == BY_FLOW
            and self.at is not None
            and self._connection.shared.clock.now - self.at < RECENTLY
        )

    def published(self) -> None:
        """Pause if an alarm is raised, because the header of a content has arrived."""
        alarms = self._connection.shared.alarms
        if not alarms.raised or PauseReason.ALARM in self._reasons:
            return
        low = f"low on {' & '.join(alarms.raised)}"
        self._stop(PauseReason.ALARM, BY_RESOURCE)
        alarms.wait(self.alarm_over)
        self._connection.observe("RABBITMQ-FLOW-conn-1", f"{low}: the connection is not read")
        if self._understands:
            self._connection.tell(commands.Connection.Blocked(low))

    @property
    def _understands(self) -> bool:
        return self._connection.capabilities.get("connection.blocked") is True

    def alarm_over(self) -> None:
        """Resume after the last alarm has been cleared."""
        if self._understands:
            self._connection.tell(commands.Connection.Unblocked())
        self._go_on(PauseReason.ALARM)

    def in_flow(self, channel: Channel, blocked: bool) -> None:
        """Pause or resume the connection for ``channel``, which is out of credit if ``blocked``."""
        if blocked and channel not in self._channels:
            self._channels.add(channel)
            self._connection.observe(
                "RABBITMQ-FLOW-conn-2", f"channel {channel.number} has no credit left: flow"
            )
            self._stop(PauseReason.FLOW, BY_FLOW)
        elif not blocked and channel in self._channels:
            self._channels.remove(channel)
            if not self._channels:
                self.at = self._connection.shared.clock.now
                self._go_on(PauseReason.FLOW)

    def close(self) -> None:
        """Forget all causes, because the connection is closed."""
        self._connection.shared.alarms.forget(self.alarm_over)
        self._channels.clear()

    def _stop(self, reason: PauseReason, by: str) -> None:
        connection = self._connection
        if not self._reasons:
            connection.pause()
        self._reasons.add(reason)
        connection.shared.outbox.stop_reading(connection.conn, reason)
        self.by, self.at = by, connection.shared.clock.now

    def _go_on(self, reason: PauseReason) -> None:
        self._reasons.discard(reason)
        self._connection.shared.outbox.resume_reading(self._connection.conn, reason)
        if not self._reasons:
            self._connection.resume()


class ChannelFlow:
    """The credit of a connection with one channel, and of that channel with its queues."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._reader = CreditFlow()
        self._queues: dict[Queue, CreditFlow] = {}
        self._blocked: set[Queue] = set()
        """Queues for which the channel has no credit left."""
        self._owed = 0
        self._left = False

    def hand(self, message: Amqp091Message, queues: list[Queue], number: int | None) -> None:
        """Pass ``message`` to ``queues``, which accept it at their own pace. Once all of them have
        accepted it, it is confirmed as ``number``, if that is given."""
        pace = self._channel.topology.pace
        assert pace is not None
        parcel = _Parcel(len(queues), number)
        self._reader.send()
        for queue in queues:
            credit = self._queues.setdefault(queue, CreditFlow())
            credit.send()
            if credit.blocked:
                self._blocked.add(queue)
            pace.hand(queue, partial(self._worked, queue, message, parcel))
        self._owed += self._reader.worked()
        self._pay()

    def _worked(self, queue: Queue, message: Amqp091Message, parcel: "_Parcel") -> None:
        topology, channel = self._channel.topology, self._channel
        parcel.left -= 1
        parcel.taken &= topology.of(queue) is None or topology.route(message, [queue])
        if self._left:
            return
        if not parcel.left and parcel.number is not None and channel.confirms is not None:
            channel.confirms.answer(parcel.number, parcel.taken)
            channel.flush()
        credit = self._queues[queue]
        credit.grant(credit.worked())
        if not credit.blocked:
            self._blocked.discard(queue)
        self._pay()

    def _pay(self) -> None:
        if not self._blocked:
            self._reader.grant(self._owed)
            self._owed = 0
        self._channel.connection.throttle.in_flow(self._channel, self._reader.blocked)

    def close(self) -> None:
        """Release the connection, because the channel is closed."""
        self._left = True
        self._channel.connection.throttle.in_flow(self._channel, False)


class _Parcel:
    """A message still on its way to ``left`` queues."""

    def __init__(self, left: int, number: int | None) -> None:
        self.left, self.number, self.taken = left, number, True
