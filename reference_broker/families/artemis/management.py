"""The management address: queries about addresses and queues, and their answers, as messages.

As in Artemis (manual, chapter on management, "Management over messages"), a message names a
resource, one of its attributes, and a reply address; the answer's body is a JSON array with one
element. Only the attributes that testers of flow control read are supported::

    _AMQ_ResourceName  address.NAME, queue.NAME
    _AMQ_Attribute     address: addressSize, messageCount, numberOfPages, paging; queue: messageCount
    reply-to           the destination of the answer; without one nothing is answered
    correlation-id     returned in the answer

The answer has ``_AMQ_OperationSucceeded``, ``true`` or ``false``; if false, the body says why.
Management messages are not charged and never wait (manual, chapter on paging).
"""  # noqa: E501

import json
from collections.abc import Callable, Mapping
from typing import TypeAlias

from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.reference_broker.kernel.accounting import MemoryAccount
from brokerproof.reference_broker.kernel.address import Address
from brokerproof.reference_broker.kernel.message import Entry, Envelope, Message
from brokerproof.reference_broker.kernel.queue import Queue

MANAGEMENT = "activemq.management"

_Value: TypeAlias = int | bool


class _Unknown(Exception):
    """The query cannot be answered; the sentence gives the reason."""


class ManagementAddress(Address):
    """An address without queues, because each message sent to it is a query. ``addresses`` are all
    addresses; ``send`` publishes."""

    def __init__(
        self,
        name: str,
        account: MemoryAccount,
        addresses: Mapping[str, Address],
        send: Callable[[Envelope, bytes], object],
    ) -> None:
        super().__init__(name, {RoutingType.MULTICAST}, True, account)
        self._all = addresses
        self._send = send

    def route(
        self, message: Message, routing: RoutingType | None, source_entry: Entry | None = None
    ) -> bool:
        asked = dict(reversed(message.envelope.headers))
        to = asked.get("reply-to")
        if to is None:
            return True
        answer: _Value | str
        try:
            answer = self._attribute(
                asked.get("_AMQ_ResourceName", ""), asked.get("_AMQ_Attribute", "")
            )
        except _Unknown as problem:
            answer = str(problem)
        headers = [("_AMQ_OperationSucceeded", "false" if isinstance(answer, str) else "true")]
        if "correlation-id" in asked:
            headers.append(("correlation-id", asked["correlation-id"]))
        self._send(Envelope(to, to, None, tuple(headers), True), json.dumps([answer]).encode())
        return True

    def _attribute(self, resource: str, attribute: str) -> _Value:
        kind, _, name = resource.partition(".")
        if kind == "address" and name in self._all:
            ask = _OF_ADDRESS.get(attribute)
            if ask is None:
                raise _Unknown(
                    f"an address has no attribute {attribute!r} here; it has"
                    f" {', '.join(_OF_ADDRESS)}"
                )
            return ask(self._all[name])
        if kind == "queue":
            for address in self._all.values():
                for queue in (*address.anycast, *address.multicast):
                    if queue.name == name:
                        if attribute != "messageCount":
                            raise _Unknown(
                                f"a queue has no attribute {attribute!r} here; it has messageCount"
                            )
                        return _count(queue)
        raise _Unknown(
            f"there is no resource {resource!r}; write address.NAME or queue.NAME of one that"
            " exists"
        )


def _count(queue: Queue) -> int:
    """Count the messages that wait or are held by a consumer."""
    return len(queue) + queue.unsettled


def _messages(address: Address) -> int:
    return sum(map(_count, (*address.anycast, *address.multicast)))


def _paging(address: Address) -> bool:
    """Return True if new messages go to pages or are dropped."""
    if address.account.policy in (FullPolicy.DROP, FullPolicy.FAIL):
        return address.account.full
    return address.pages is not None and address.pages.active


def _pages(address: Address) -> int:
    return 0 if address.pages is None else address.pages.files


_OF_ADDRESS: dict[str, Callable[[Address], _Value]] = {
    "addressSize": lambda address: address.account.size,
    "messageCount": _messages,
    "numberOfPages": _pages,
    "paging": _paging,
}
