"""What a broker says of its own addresses: how much they hold, and whether they went to disk.

Management as the Artemis family has it: a message to the management address that names a resource
and an attribute, and an answer whose body is a JSON array of one (manual, chapter on management,
"Management over messages"). It goes over a STOMP connection of its own, so it works wherever the
case itself does and its frames stand in the trace.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokerproof.harness.model.time import Duration
from brokerproof.harness.protocols.conversation import PATIENCE, ControlFailed
from brokerproof.harness.protocols.stomp.raw_peer import MESSAGE, StompPeer

if TYPE_CHECKING:
    from brokerproof.harness.cases.bench import Bench

ADMIN = "admin"
"""The capability of a target that answers management messages."""

_ATTRIBUTES = {
    "size": "addressSize",
    "messages": "messageCount",
    "pages": "numberOfPages",
    "paging": "paging",
}


@dataclass(frozen=True, slots=True)
class AddressState:
    """What an address holds, as its broker says: one reading, taken attribute by attribute."""

    size: int
    """Octets of memory that are charged to it."""
    messages: int
    """In all its queues together, paged ones and those being delivered included."""
    pages: int
    """Page files."""
    paging: bool
    """Whether what is sent now goes to disk (PAGE), is dropped (DROP) or refused (FAIL)."""

    def __str__(self) -> str:
        on = "paging" if self.paging else "not paging"
        return f"{self.size} octets, {self.messages} messages, {self.pages} pages, {on}"


class Admin:
    """Asks a broker about its addresses. ``connect`` gives the connection that is used for all
    questions."""

    def __init__(self, bench: Bench, connect: Callable[[], StompPeer]) -> None:
        self._bench, self._address = bench, str(bench.profile.parameters["management_address"])
        self._peer = connect()
        self._answers = bench.destination()
        self._peer.subscribe(self._answers)
        self._asked = 0

    def attribute(self, resource: str, attribute: str) -> Any:
        """One attribute of a resource such as ``address.orders``. Raises :class:`ControlFailed`
        when it is not told."""
        self._asked += 1
        asked = str(self._asked)
        headers = {
            "destination": self._address,
            "reply-to": self._answers.name,
            "correlation-id": asked,
            "_AMQ_ResourceName": resource,
            "_AMQ_Attribute": attribute,
        }
        self._peer.send("SEND", headers)
        answer = self._peer.expect(MESSAGE)
        said = answer.body.decode("utf-8", "replace")
        if answer.get("correlation-id") != asked or answer.get("_AMQ_OperationSucceeded") != "true":
            raise ControlFailed(
                f"the broker did not tell {attribute} of {resource}: {said[:200] or answer.brief()}"
            )
        try:
            (value,) = json.loads(said)
        except ValueError:
            raise ControlFailed(
                f"{attribute} of {resource} should be a JSON array of one, it is {said[:200]!r}"
            ) from None
        return value

    def address(self, name: str) -> AddressState:
        """How an address stands. Raises :class:`ControlFailed` for one that the broker does not
        have."""
        told = {
            key: self.attribute(f"address.{name}", attribute)
            for key, attribute in _ATTRIBUTES.items()
        }
        state = AddressState(
            int(told["size"]), int(told["messages"]), int(told["pages"]), bool(told["paging"])
        )
        self._bench.note(f"{name}: {state}")
        return state

    def size(self, name: str) -> int:
        """Octets that are charged to an address now."""
        return int(self.attribute(f"address.{name}", "addressSize"))

    def until(
        self, name: str, reached: Callable[[AddressState], bool], within: Duration = PATIENCE
    ) -> tuple[AddressState, bool]:
        """The first reading that has ``reached``, or the last one ``within`` that time; brokers do
        much on their own time."""
        deadline = self._bench.now() + within
        pause = within // 100
        while not reached(state := self.address(name)):
            if self._bench.now() >= deadline:
                return state, False
            self._bench.advance(pause)
            pause = min(2 * pause, within // 10)
        return state, True
