"""Reads the usage of an ActiveMQ broker and its destinations through the statistics plugin.

The broker answers a message to ``ActiveMQ.Statistics.Destination.NAME`` or
``ActiveMQ.Statistics.Broker`` with a map, sent to its reply-to (ActiveMQ documentation,
"StatisticsPlugin"). Requests use a separate AMQP 1.0 connection, because AMQP delivers the answer
as a map."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.protocols.amqp10.endpoint_state import Link
from brokerproof.harness.protocols.amqp10.raw_peer import AmqpPeer, Node
from brokerproof.harness.protocols.conversation import PATIENCE, CaseClock, ControlFailed

STATISTICS = "statistics"
"""The capability of a target that has the plugin."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The used bytes of a limit; ``percent`` is the broker's own figure, rounded down."""

    used: int
    limit: int
    percent: int

    @property
    def full(self) -> bool:
        """True if the broker treats the limit as reached (ACTIVEMQ-PFC-2)."""
        return self.percent >= 100

    def __str__(self) -> str:
        return f"{self.used} of {self.limit} bytes"


@dataclass(frozen=True, slots=True)
class DestinationUsage:
    messages: int
    memory: Usage


class Statistics:
    """Reads a broker's statistics over the connection ``peer``.

    ``answers`` is an unused address for the answers; ``nodes`` has templates of node addresses."""

    def __init__(
        self, clock: CaseClock, peer: AmqpPeer, answers: Node, nodes: dict[RoutingType, str]
    ) -> None:
        self._clock = clock
        self._peer = peer
        self._answers = answers
        self._nodes = nodes
        self._link = self._peer.receiver(self._answers)
        self._peer.flow(self._link, link_credit=1000)
        self._askers: dict[str, Link] = {}

    def destination(
        self, name: str, routing: RoutingType = RoutingType.ANYCAST
    ) -> DestinationUsage:
        """Return the statistics of destination ``name``.

        Raises :class:`ControlFailed` if the broker does not answer."""
        statistics = self._ask(f"Destination.{name}", routing)
        return DestinationUsage(statistics["size"], _usage(statistics, "memory"))

    def broker(self) -> Mapping[str, Usage]:
        """Return the usage of each limit of the broker: memory, store and temp."""
        statistics = self._ask("Broker", RoutingType.ANYCAST)
        return {limit: _usage(statistics, limit) for limit in ("memory", "store", "temp")}

    def until(
        self,
        name: str,
        reached: Callable[[DestinationUsage], bool],
        routing: RoutingType = RoutingType.ANYCAST,
    ) -> tuple[DestinationUsage, bool]:
        """Read a destination's statistics until ``reached`` accepts them or time is up; return the
        last ones, and whether they were accepted. Brokers may update counters in the background."""
        last = self.destination(name, routing)
        deadline = self._clock.now() + PATIENCE
        while not (done := reached(last)) and self._clock.now() < deadline:
            self._clock.advance(PATIENCE // 100)
            last = self.destination(name, routing)
        return last, done

    def _ask(self, subject: str, routing: RoutingType) -> Mapping[str, Any]:
        address = self._nodes[routing].format(name=f"ActiveMQ.Statistics.{subject}")
        link = self._askers.get(address)
        if link is None:
            link = self._askers[address] = self._peer.sender(Node(address))
        self._clock.wait_until(lambda: link.credit > 0 or self._peer.ended is not None, PATIENCE)
        self._peer.post(link, b"", sections={"properties": {"reply-to": self._answers.address}})
        self._clock.wait_until(
            lambda: bool(self._peer.deliveries) or self._peer.ended is not None, PATIENCE
        )
        answers = self._peer.take_deliveries(self._link)
        for delivery in answers:
            self._peer.disposition(delivery)
        if len(answers) != 1 or not isinstance(answers[0].message.body, dict):
            raise ControlFailed(
                f"the broker did not return its statistics of {subject}; {self._peer.instead()}"
            )
        statistics: Mapping[str, Any] = answers[0].message.body
        return statistics


def _usage(statistics: Mapping[str, Any], limit: str) -> Usage:
    used, size, percent = (statistics[f"{limit}{of}"] for of in ("Usage", "Limit", "PercentUsage"))
    return Usage(used, size, percent)
