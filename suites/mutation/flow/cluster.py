"""Faults of RabbitMQ clusters: how nodes share alarms and react to them. All nodes have the
fault."""

from brokerproof.reference_broker.kernel.alarms import DISK, HERE, Alarms
from brokerproof.reference_broker.protocols.amqp091.consumer import Consumer
from brokerproof.reference_broker.protocols.amqp091.throttle import Throttle
from brokerproof.suites.mutation.mutant import Group

cluster = Group("cluster", "reference-rabbitmq-cluster")

SHARED, OTHERS = "RABBITMQ-FLOW-cluster-1", "RABBITMQ-FLOW-conn-1"


@cluster.override(Alarms, "set", breaks=SHARED)
def an_alarm_is_kept_to_itself(original, reached, self, resource, short, node=HERE):
    """A node ignores the alarms of the others."""
    if node == HERE:
        original(self, resource, short)
    else:
        reached()


@cluster.skips(Alarms, "set", breaks=SHARED)
def only_memory_is_shared(self, resource, short, node=HERE):
    """A node without disk space does not notify the others."""
    return not (node == HERE or resource != DISK)


@cluster.override(Alarms, "set", breaks=SHARED)
def a_node_alone_can_clear_the_alarm(original, reached, self, resource, short, node=HERE):
    """An alarm ends for all nodes as soon as one node recovers, although another is still short."""
    original(self, resource, short, node)
    for other, what in () if short else self.all:
        if reached(what == resource):
            original(self, resource, False, other)


@cluster.skips(Alarms, "set", breaks=SHARED)
def alarms_elsewhere_are_never_over(self, resource, short, node=HERE):
    """An alarm of another node never ends."""
    return not (short or node == HERE)


@cluster.override(Throttle, "holds", breaks=SHARED)
def an_alarm_elsewhere_is_told_and_no_more(original, reached, self):
    """A publisher is notified of an alarm on another node but not blocked."""
    elsewhere = not self._connection.shared.alarms.own
    return reached.instead(original(self), False) if elsewhere else original(self)


@cluster.override(Throttle, "_understands", breaks=SHARED)
def an_alarm_elsewhere_is_not_told(original, reached, self):
    """A connection blocked because of another node's alarm is not notified."""
    return original(self) and not reached.instead(False, not self._connection.shared.alarms.own)


@cluster.mutant(SHARED)
def who_comes_later_is_not_held_back(patch, reached):
    """An alarm on another node blocks only connections that existed when it was raised."""

    @patch.after(Throttle)
    def __init__(self, connection):
        self._exempt = connection.shared.alarms.all

    @patch.override(Throttle)
    def published(original, self):
        if not reached(self._exempt and self._exempt == self._connection.shared.alarms.all):
            original(self)


@cluster.override(Consumer, "has_room", breaks=OTHERS)
def consumers_wait_too(original, reached, self):
    """An alarm on another node stops consumers too."""
    alarms = self.channel.connection.shared.alarms
    room = original(self)
    return reached.instead(room, False) if alarms.raised and not alarms.own else room
