"""Reads the state of a broker's addresses through Artemis management messages.

A message to the management address names a resource and an attribute. The body of the answer is a
JSON array of one value (manual, chapter on management, "Management over messages"). Requests use a
separate STOMP connection, so they work wherever the case works, and they are part of the trace."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.model.time import Duration
from brokerproof.harness.protocols.conversation import PATIENCE, CaseClock, ControlFailed
from brokerproof.harness.protocols.stomp.raw_peer import MESSAGE, Destination, StompPeer

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
    """The state of an address, read one attribute at a time."""

    size: int
    """The bytes of memory that the broker counts for the address."""
    messages: int
    """The number of messages in all queues of the address, including paged ones and those in
    delivery."""
    pages: int
    """The number of page files."""
    paging: bool
    """True if new messages are paged (PAGE), dropped (DROP) or refused (FAIL)."""

    def __str__(self) -> str:
        on = "paging" if self.paging else "not paging"
        return f"{self.size} bytes, {self.messages} messages, {self.pages} pages, {on}"


class Admin:
    """Reads attributes of a broker's addresses over the connection ``peer``.

    ``address`` is the management address; ``answers`` is an unused destination for the answers."""

    def __init__(
        self, clock: CaseClock, peer: StompPeer, address: str, answers: Destination
    ) -> None:
        self._clock = clock
        self._peer = peer
        self._address = address
        self._answers = answers
        self._peer.subscribe(self._answers)
        self._requests = 0

    def attribute(self, resource: str, attribute: str) -> Any:
        """Return one attribute of a resource such as ``address.orders``.

        Raises :class:`ControlFailed` if the broker does not return it."""
        return self._ask(f"{attribute} of {resource}", resource, {"_AMQ_Attribute": attribute})

    def require_answers(self) -> None:
        """Raise :class:`ControlFailed` unless the broker answers a query about an address."""
        self.size(self._answers.name)

    def settings(self, name: str) -> dict[str, Any]:
        """Return the effective address-settings of ``name``, named as in the broker's JSON. Raises
        :class:`ControlFailed` like :meth:`attribute`."""
        operation = {"_AMQ_OperationName": "getAddressSettingsAsJSON"}
        text = self._ask(f"the settings of {name}", "broker", operation, json.dumps([name]))
        try:
            settings = json.loads(text)
        except (TypeError, ValueError):
            settings = None
        if not isinstance(settings, dict):
            raise ControlFailed(
                f"the settings of {name} should be a JSON object, got {text!r:.200}"
            )
        return settings

    def _ask(
        self, words: str, resource: str, question: Mapping[str, str], arguments: str = ""
    ) -> Any:
        self._requests += 1
        request = str(self._requests)
        headers = {
            "destination": self._address,
            "reply-to": self._answers.name,
            "correlation-id": request,
            "_AMQ_ResourceName": resource,
            **question,
        }
        self._peer.send("SEND", headers, arguments.encode())
        answer = self._peer.expect(MESSAGE)
        text = answer.body.decode("utf-8", "replace")
        if (
            answer.get("correlation-id") != request
            or answer.get("_AMQ_OperationSucceeded") != "true"
        ):
            raise ControlFailed(
                f"the broker did not return {words}: {text[:200] or answer.brief()}"
            )
        try:
            (value,) = json.loads(text)
        except ValueError:
            raise ControlFailed(
                f"{words} should be a JSON array of one value; it is {text[:200]!r}"
            ) from None
        return value

    def address(self, name: str) -> AddressState:
        """Return the state of an address. Raises :class:`ControlFailed` for an unknown one."""
        values = {
            key: self.attribute(f"address.{name}", attribute)
            for key, attribute in _ATTRIBUTES.items()
        }
        state = AddressState(
            int(values["size"]),
            int(values["messages"]),
            int(values["pages"]),
            bool(values["paging"]),
        )
        self._clock.record_note(f"{name}: {state}")
        return state

    def size(self, name: str) -> int:
        return int(self.attribute(f"address.{name}", "addressSize"))

    def until(
        self, name: str, reached: Callable[[AddressState], bool], within: Duration = PATIENCE
    ) -> tuple[AddressState, bool]:
        """Read the state until ``reached`` accepts it or time is up; return the last state, and
        whether it was accepted.

        Brokers page and depage in the background."""
        deadline = self._clock.now() + within
        pause = within // 100
        while not reached(state := self.address(name)):
            if self._clock.now() >= deadline:
                return state, False
            self._clock.advance(pause)
            pause = min(2 * pause, within // 10)
        return state, True
