"""Faults of linked brokers of RabbitMQ's kind: what one tells the others of its alarms, and what
these make of it.

Each broker of a cluster has the fault.
"""

from __future__ import annotations

from dataclasses import replace

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.alarms import DISK, HERE, Alarms
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection
from brokerproof.reference_broker.protocols.amqp091.consumer import Consumer
from brokerproof.reference_broker.protocols.amqp091.throttle import Throttle
from brokerproof.suites.mutation.mutant import Group, Reached

cluster = Group("cluster", "reference-rabbitmq-cluster")

SHARED, OTHERS = "RABBITMQ-FLOW-cluster-1", "RABBITMQ-FLOW-conn-1"


@cluster.mutant(SHARED)
def an_alarm_is_kept_to_itself(parts: Parts, reached: Reached) -> Parts:
    """A node does not heed the alarms of the others."""

    class Faulty(Alarms):
        def set(self, resource: str, short: bool, node: str = HERE) -> None:
            if node == HERE:
                super().set(resource, short)
            else:
                reached()

    return replace(parts, alarms=Faulty)


@cluster.mutant(SHARED)
def only_memory_is_shared(parts: Parts, reached: Reached) -> Parts:
    """A node that has no disk space left does not tell the others."""

    class Faulty(Alarms):
        def set(self, resource: str, short: bool, node: str = HERE) -> None:
            if node == HERE or resource != DISK:
                super().set(resource, short, node)
            else:
                reached()

    return replace(parts, alarms=Faulty)


@cluster.mutant(SHARED)
def a_node_alone_can_clear_the_alarm(parts: Parts, reached: Reached) -> Parts:
    """An alarm is over for all as soon as one node is not short of that resource any more, though
    another still is."""

    class Faulty(Alarms):
        def set(self, resource: str, short: bool, node: str = HERE) -> None:
            super().set(resource, short, node)
            for other, what in () if short else self.all:
                if what == resource:
                    reached()
                    super().set(resource, False, other)

    return replace(parts, alarms=Faulty)


@cluster.mutant(SHARED)
def alarms_elsewhere_are_never_over(parts: Parts, reached: Reached) -> Parts:
    """What another node was short of once it counts as short of for ever."""

    class Faulty(Alarms):
        def set(self, resource: str, short: bool, node: str = HERE) -> None:
            if short or node == HERE:
                super().set(resource, short, node)
            else:
                reached()

    return replace(parts, alarms=Faulty)


@cluster.mutant(SHARED)
def an_alarm_elsewhere_is_told_and_no_more(parts: Parts, reached: Reached) -> Parts:
    """Who publishes is told of an alarm on another node, and read on."""

    class Faulty(Throttle):
        @property
        def holds(self) -> bool:
            elsewhere = not self._connection.shared.alarms.own
            return reached.instead(super().holds, False) if elsewhere else super().holds

    return replace(parts, throttle091=Faulty)


@cluster.mutant(SHARED)
def an_alarm_elsewhere_is_not_told(parts: Parts, reached: Reached) -> Parts:
    """Who is held back for the sake of another node is not told so."""

    class Faulty(Throttle):
        @property
        def _understands(self) -> bool:
            return super()._understands and not reached.instead(
                False, not self._connection.shared.alarms.own
            )

    return replace(parts, throttle091=Faulty)


@cluster.mutant(SHARED)
def who_comes_later_is_not_held_back(parts: Parts, reached: Reached) -> Parts:
    """An alarm on another node holds back the connections that there were when it was raised, and
    none that come later."""

    class Faulty(Throttle):
        def __init__(self, connection: Amqp091Connection) -> None:
            super().__init__(connection)
            self._exempt = connection.shared.alarms.all

        def published(self) -> None:
            if self._exempt and self._exempt == self._connection.shared.alarms.all:
                reached()
                return
            super().published()

    return replace(parts, throttle091=Faulty)


@cluster.mutant(OTHERS)
def consumers_wait_too(parts: Parts, reached: Reached) -> Parts:
    """While another node is short of something consumers get nothing."""

    class Faulty(Consumer):
        def has_room(self) -> bool:
            alarms = self.channel.connection.shared.alarms
            room = super().has_room()
            return reached.instead(room, False) if alarms.raised and not alarms.own else room

    return replace(parts, consumer091=Faulty)
