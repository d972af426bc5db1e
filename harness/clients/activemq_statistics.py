"""What an ActiveMQ says of its destinations and of itself: how much they hold, and what of its
limits is used.

Its statistics plugin answers messages: whoever sends one to
``ActiveMQ.Statistics.Destination.NAME`` or to ``ActiveMQ.Statistics.Broker`` gets a map at the
place that the message names as its reply-to (ActiveMQ documentation, "StatisticsPlugin"). It is
asked over AMQP 1.0, on a connection of its own, because there a map arrives as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.protocols.amqp10.raw_peer import AmqpPeer, Node
from brokerproof.harness.protocols.conversation import PATIENCE, ControlFailed

if TYPE_CHECKING:
    from brokerproof.harness.cases.bench import Bench
    from brokerproof.harness.protocols.amqp10.endpoint_state import Link

STATISTICS = "statistics"
"""The capability of a target that answers such messages."""


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of a limit is used. Octets; ``percent`` is as the broker counts it, rounded down."""

    used: int
    limit: int
    percent: int

    @property
    def full(self) -> bool:
        """Whether the broker takes it for full (ACTIVEMQ-PFC-2)."""
        return self.percent >= 100

    def __str__(self) -> str:
        return f"{self.used} of {self.limit} octets"


@dataclass(frozen=True, slots=True)
class Held:
    """What a destination holds."""

    messages: int
    memory: Usage


class Statistics:
    """Asks a broker about itself. ``connect`` gives the connection that is used for all
    questions."""

    def __init__(self, bench: Bench, connect: Callable[[], AmqpPeer]) -> None:
        self._bench, self._peer = bench, connect()
        self._answers = bench.node()
        self._link = self._peer.receiver(self._answers)
        self._peer.flow(self._link, link_credit=1000)
        self._askers: dict[str, Link] = {}

    def destination(self, name: str, routing: RoutingType = RoutingType.ANYCAST) -> Held:
        """What the destination ``name`` holds. Raises :class:`ControlFailed` when the broker does
        not tell."""
        told = self._ask(f"Destination.{name}", routing)
        return Held(told["size"], _usage(told, "memory"))

    def broker(self) -> Mapping[str, Usage]:
        """How much of each of its limits is used: memory, store and temp."""
        told = self._ask("Broker", RoutingType.ANYCAST)
        return {each: _usage(told, each) for each in ("memory", "store", "temp")}

    def until(self, name: str, reached: Callable[[Held], bool]) -> tuple[Held, bool]:
        """Asks about a queue until ``reached`` its answer; returns the last answer, and whether it
        did in time: brokers may count on their own time."""
        last = self.destination(name)
        deadline = self._bench.now() + PATIENCE
        while not (done := reached(last)) and self._bench.now() < deadline:
            self._bench.advance(PATIENCE // 100)
            last = self.destination(name)
        return last, done

    def _ask(self, about: str, routing: RoutingType) -> Mapping[str, Any]:
        template = self._bench.profile.parameters[f"{routing.value.lower()}_node"]
        address = str(template).format(name=f"ActiveMQ.Statistics.{about}")
        link = self._askers.get(address)
        if link is None:
            link = self._askers[address] = self._peer.sender(Node(address))
        self._bench.wait_until(lambda: link.credit > 0 or self._peer.ended is not None, PATIENCE)
        self._peer.post(link, b"", sections={"properties": {"reply-to": self._answers.address}})
        self._bench.wait_until(
            lambda: bool(self._peer.deliveries) or self._peer.ended is not None, PATIENCE
        )
        answers = self._peer.take_deliveries(self._link)
        for each in answers:
            self._peer.disposition(each)
        if len(answers) != 1 or not isinstance(answers[0].message.body, dict):
            raise ControlFailed(
                f"the broker did not tell its statistics of {about}; {self._peer.instead()}"
            )
        told: Mapping[str, Any] = answers[0].message.body
        return told


def _usage(told: Mapping[str, Any], what: str) -> Usage:
    return Usage(told[f"{what}Usage"], told[f"{what}Limit"], told[f"{what}PercentUsage"])
