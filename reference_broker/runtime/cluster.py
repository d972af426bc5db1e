"""Linked brokers on one clock, which share alarms like a RabbitMQ cluster
(RABBITMQ-FLOW-cluster-1).

The linked brokers are driven like one broker. The first node's acceptors keep their names; those of
other nodes are prefixed with the node's name, as in ``b.amqp``. Alarm changes
(:class:`brokerproof.harness.model.broker_io.AlarmChanged`) reach the other nodes at the same
instant. Queues are not shared."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from brokerproof.harness.model.broker_io import (
    AlarmChanged,
    AlarmElsewhere,
    AtNode,
    Connected,
    Effect,
    Input,
    TimerFired,
)
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.kernel.broker import Broker
from brokerproof.reference_broker.runtime.virtual import Made, made_of, settled
from brokerproof.reference_broker.settings.rabbitmq import RabbitMq

NODES = ("a", "b")


class Cluster:
    """``nodes`` are the brokers by name, created with ``linked=True``; the first is the default."""

    def __init__(self, nodes: Mapping[str, Broker]) -> None:
        self._nodes = dict(nodes)
        self._first = next(iter(self._nodes))
        self._at: dict[int, str] = {}

    def handle(self, now: Instant, event: Input) -> Sequence[Effect]:
        """Return the effects of ``event`` on its node and, through it, on the other nodes."""
        if isinstance(event, TimerFired):
            return [effect for name in self._nodes for effect in self._handled(now, name, event)]
        if isinstance(event, Connected):
            node, dot, acceptor = event.acceptor.partition(".")
            if not dot or node not in self._nodes:
                node, acceptor = self._first, event.acceptor
            self._at[event.conn] = node
            return self._handled(now, node, replace(event, acceptor=acceptor))
        if isinstance(event, AtNode):
            return self._handled(now, event.node, event.event)
        conn: int | None = getattr(event, "conn", None)
        return self._handled(now, self._first if conn is None else self._at[conn], event)

    def _handled(self, now: Instant, node: str, event: Input) -> list[Effect]:
        effects: list[Effect] = []
        for effect in self._nodes[node].handle(now, event):
            if not isinstance(effect, AlarmChanged):
                effects.append(effect)
                continue
            alarm = AlarmElsewhere(f"{node}@localhost", effect.resource, effect.short)
            for other in self._nodes:
                if other != node:
                    effects += self._handled(now, other, alarm)
        return effects

    def next_deadline(self) -> Instant | None:
        """Return the earliest deadline of any node."""
        return min(
            (due for node in self._nodes.values() if (due := node.next_deadline()) is not None),
            default=None,
        )


def make(config: str | None, overrides: Mapping[str, object], *, start: Instant) -> Made:
    """Return two linked brokers with the same configuration; see
    :func:`brokerproof.reference_broker.runtime.virtual.make`."""
    settings = settled(config, overrides)
    rabbitmq = settings.rabbitmq or RabbitMq()  # no other family has clusters
    nodes = {
        name: create_broker(
            replace(settings, rabbitmq=replace(rabbitmq, node=f"{name}@localhost")),
            start=start,
            session_seed=name,
            linked=True,
        )
        for name in NODES
    }
    made = made_of(Cluster(nodes), settings, None)
    others = {
        f"{name}.{acceptor_name}": acceptor
        for name in NODES[1:]
        for acceptor_name, acceptor in made.acceptors.items()
    }
    return replace(made, acceptors=made.acceptors | others)
